//! The client's thread: what keeps it, how it ends, and what its end waits for.

use crate::prelude::*;

#[test]
fn a_guard_outlives_its_client() {
    let tools = Tools::start();
    let client = tools.client();
    let guard = client.mutex("g").with(leased(Lease::Watchdog(LEASE))).lock().unwrap();
    drop(client);
    thread::sleep(LEASE + LEASE / 2);
    guard.check().unwrap();
    let other = tools.client();
    assert!(other.mutex("g").try_lock().unwrap().is_none());
    guard.extend(2 * LEASE).unwrap();
    guard.release().unwrap();
    assert!(!tools.is_held("g"));
}

/// S-10: an async call in another runtime does not take the renewals of the blocking ones there.
#[test]
fn leases_are_renewed_whichever_runtime_used_the_client_first() {
    let tools = Tools::start();
    for client in [tools.client(), LockClient::in_memory().unwrap()] {
        let passing = runtime();
        passing.block_on(client.as_async().mutex("first").run(async {})).unwrap();
        let guard = client.mutex("later").with(leased(Lease::Watchdog(LEASE))).lock().unwrap();
        drop(passing);
        thread::sleep(LEASE + LEASE / 2);
        guard.check().unwrap();
        guard.release().unwrap();
    }
}

/// The last one to be dropped waits for the release, so that a program that ends leaves nothing.
#[test]
fn the_last_drop_finishes_the_release_and_ends_the_thread() {
    let tools = Tools::start();
    for _ in 0..5 {
        let client = tools.client();
        let guard = client.mutex("d").lock().unwrap();
        drop(client);
        let start = Instant::now();
        drop(guard);
        assert!(!tools.is_held("d"), "not released after {:?}", start.elapsed());
    }
    eventually_blocking(SOON, "only the test is connected", || tools.connections().is_empty());
}

/// In a task the last drop does not wait, even for a store that does not answer.
#[test]
fn the_last_drop_does_not_block_a_task() {
    let tools = Tools::start();
    let guard = tools.client().mutex("t").lock().unwrap();
    tools.server.pause();
    let took = tools.runtime.block_on(async {
        let start = Instant::now();
        drop(guard);
        start.elapsed()
    });
    tools.server.resume();
    assert!(took < ms(150), "{took:?}");
}

/// On a thread it waits, for a moment only.
#[test]
fn the_last_drop_is_bounded() {
    let tools = Tools::start();
    let guard = tools.client().mutex("b").lock().unwrap();
    tools.server.pause();
    let start = Instant::now();
    drop(guard);
    let took = start.elapsed();
    tools.server.resume();
    assert!(took < SOON, "{took:?}");
    assert!(took >= ms(200), "it did not wait for the release: {took:?}");
}

/// S-20, during unwinding.
#[test]
fn a_panicking_thread_releases() {
    let tools = Tools::start();
    let client = tools.client();
    for by_run in [false, true] {
        let lock = client.mutex("p");
        let panics = thread::spawn(move || {
            if by_run {
                lock.run(|_| panic!("on purpose")).unwrap();
            }
            let _guard = lock.lock().unwrap();
            panic!("on purpose");
        });
        panics.join().unwrap_err();
        eventually_blocking(SOON, "the lock is free", || !tools.is_held("p"));
    }
}

/// Waiters that a shutdown finds are sent away, and what is dropped is released before it returns.
#[test]
fn shutdown_ends_waits_and_finishes_releases() {
    let tools = Tools::start();
    let (holder, client) = (tools.client(), tools.client());
    let _held = holder.mutex("held").lock().unwrap();
    let mutex = client.mutex("held");
    let waiter = thread::spawn(move || mutex.lock().map(drop));
    eventually_blocking(SOON, "a thread waits", || client.as_async().waiting().len() == 1);
    for n in 0..20 {
        drop(client.mutex(format!("many:{n}")).lock().unwrap());
    }
    assert!(client.shutdown(SOON).unwrap().is_clean());
    assert!((0..20).all(|n| !tools.is_held(&format!("many:{n}"))));
    assert!(matches!(waiter.join().unwrap(), Err(LockError::Closed)));
    assert!(matches!(client.mutex("x").lock(), Err(LockError::Closed)));
}

/// The face of an async client whose runtime has ended: its tasks go on in the thread of the faces.
#[test]
fn the_face_of_a_client_whose_runtime_has_ended() {
    let tools = Tools::start();
    let runtime = runtime();
    let url = tools.server.url();
    let client = runtime.block_on(lock_runtime::LockClient::connect(&url)).unwrap();
    runtime.block_on(async { client.mutex("a").run(async {}).await.unwrap() });
    drop(runtime);
    let lock = LockClient::from(client).mutex("a").with(leased(Lease::Watchdog(LEASE)));
    let guard = lock.lock().unwrap();
    thread::sleep(LEASE + LEASE / 2);
    guard.check().unwrap();
    guard.release().unwrap();
    assert!(!tools.is_held("a"));
}

#[test]
fn settings_are_those_of_the_async_builder() {
    let tools = Tools::start();
    let settings = || lock_runtime::LockClient::builder().namespace("shop").service("cli");
    let client = settings().blocking().connect(&tools.server.url()).unwrap();
    assert_eq!(client.mutex("a").lock().unwrap().key().as_str(), "shop:a");
    let error = settings().command_timeout(ms(1)).blocking().in_memory().unwrap_err();
    assert!(matches!(error, LockError::InvalidOptions(_)), "{error:?}");
    let error = LockClient::connect("redis://127.0.0.1:1").unwrap_err();
    assert!(matches!(error, LockError::Store(_)), "{error:?}");
    let lazy = LockClient::connect_lazy(&tools.server.url()).unwrap();
    lazy.mutex("lazy").run(|_| ()).unwrap();
    lazy.ready().unwrap();
}
