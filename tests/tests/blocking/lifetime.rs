//! Clients, guards and releases without a runtime of the program's.

use lock_runtime::MultiLock;

use crate::prelude::*;

/// Also one of several locks of two clients.
#[test]
fn a_guard_outlives_its_client() {
    let tools = Tools::start();
    let (one, two) = (tools.client(), tools.client());
    let watched = leased(Lease::Watchdog(LEASE));
    let guard = one.mutex("g").with(watched.clone()).blocking_lock().unwrap();
    let both = MultiLock::of([one.mutex("a").into(), two.fair_mutex("b").into()]);
    let several = both.with(watched).blocking_lock().unwrap();
    let connections = tools.connections();
    drop((one, two));
    thread::sleep(LEASE + LEASE / 2);
    guard.check().and(several.check()).unwrap();
    assert!(["g", "a", "b"].iter().all(|name| tools.is_held(name)));
    let now = tools.connections();
    assert!(now.is_superset(&connections), "{connections:?} became {now:?}");
    block_on(guard.extend(2 * LEASE)).unwrap();
    guard.blocking_release().unwrap();
    several.blocking_release().unwrap();
    assert!(!["g", "a", "b"].iter().any(|name| tools.is_held(name)));
}

/// S-10: an async call in another runtime does not take the renewals of the blocking ones there.
#[test]
fn leases_are_renewed_whichever_runtime_used_the_client_first() {
    let tools = Tools::start();
    for client in [tools.client(), block_on(async { Ok(LockClient::in_memory()) }).unwrap()] {
        let passing = runtime();
        passing.block_on(client.mutex("first").run(async {})).unwrap();
        let guard =
            client.mutex("later").with(leased(Lease::Watchdog(LEASE))).blocking_lock().unwrap();
        drop(passing);
        thread::sleep(LEASE + LEASE / 2);
        guard.check().unwrap();
        guard.blocking_release().unwrap();
    }
}

/// Nothing waits for the release of a dropped guard, and the client's connections end after it.
#[test]
fn the_last_drop_releases_in_the_background() {
    let tools = Tools::start();
    let guard = tools.client().mutex("d").blocking_lock().unwrap();
    tools.server.pause();
    let start = Instant::now();
    drop(guard);
    let took = start.elapsed();
    tools.server.resume();
    assert!(took < patience(ms(150)), "{took:?}");
    eventually_blocking(SOON, "the lock is released", || !tools.is_held("d"));
    eventually_blocking(SOON, "only the test is connected", || tools.connections().is_empty());
}

#[test]
fn settings_are_those_of_the_builder() {
    let tools = Tools::start();
    let settings = || LockClient::builder().namespace("shop").service("cli");
    let client = settings().connect_blocking(&tools.server.url()).unwrap();
    assert_eq!(client.mutex("a").blocking_lock().unwrap().key().as_str(), "shop:a");
    let error = settings().command_timeout(ms(1)).in_memory().unwrap_err();
    assert!(matches!(error, LockError::InvalidOptions(_)), "{error:?}");
    let error = LockClient::builder().connect_blocking("redis://127.0.0.1:1").unwrap_err();
    assert!(matches!(error, LockError::Store(_)), "{error:?}");
    let lazy = LockClient::connect_lazy(&tools.server.url()).unwrap();
    lazy.mutex("lazy").run_blocking(|_| ()).unwrap();
    block_on(lazy.ready()).unwrap();
}
