//! S-6, S-7 on threads.

use std::num::NonZeroU32;

use lock_runtime::blocking::{MultiLock, MultiMember};

use crate::prelude::*;

/// Fails at once in place of waiting, so that a missing re-entry is no deadlock.
fn never() -> LockOptions {
    LockOptions::builder().wait(Wait::Never).build().unwrap()
}

#[test]
fn code_that_run_calls_on_its_thread_re_enters() {
    let tools = Tools::start();
    let client = tools.client();
    let lock = client.mutex("n").with(never());
    let inner = |outer: &LockGuard| {
        let nested = lock.lock().unwrap();
        assert_eq!(nested.token(), outer.token());
        nested.run(|_| lock.run(|_| ()).unwrap()).unwrap();
        nested.release().unwrap();
        assert!(tools.is_held("n"), "a nested release freed the lock");
    };
    lock.run(inner).unwrap();
    assert!(!tools.is_held("n"));
}

/// S-7: a guard that runs nothing encloses nothing.
#[test]
fn a_plain_guard_gives_no_re_entry() {
    let client = LockClient::in_memory().unwrap();
    let guard = client.mutex("p").lock().unwrap();
    let start = Instant::now();
    let error = client.mutex("p").wait(ms(80)).lock().unwrap_err();
    assert!(error.is_timeout() && start.elapsed() >= ms(80), "{error:?}");
    // Nor does one whose run has ended, or panicked.
    guard.run(|_| ()).unwrap();
    let run = std::panic::AssertUnwindSafe(|| guard.run(|_| panic!("on purpose")));
    std::panic::catch_unwind(run).unwrap_err();
    assert!(client.mutex("p").try_lock().unwrap().is_none());
}

#[test]
fn another_thread_waits_unless_its_closure_inherits() {
    let client = LockClient::in_memory().unwrap();
    let lock = client.mutex("t");
    let asks = || {
        let lock = lock.clone();
        move || lock.try_lock().unwrap().map(|guard| guard.token())
    };
    let run = |outer: &LockGuard| {
        assert_eq!(thread::spawn(asks()).join().unwrap(), None);
        let inherits = thread::spawn(inherit(asks())).join().unwrap();
        assert_eq!(inherits, Some(outer.token()));
        inherit(asks())
    };
    let later = lock.run(run).unwrap();
    let _held = lock.lock().unwrap();
    assert_eq!(later(), None, "it re-entered a hold that has ended");
}

#[test]
fn threads_inside_one_hold_exclude_each_other() {
    let client = LockClient::in_memory().unwrap();
    let lock = client.mutex("siblings");
    let inside = AtomicU64::new(0);
    let outcome = lock.run(|_| {
        thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(inherit(|| {
                    lock.run(|_| {
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are inside");
                        // A re-entry of a re-entry does not wait for its siblings.
                        lock.run(|_| thread::sleep(ms(5))).unwrap();
                        inside.fetch_sub(1, Ordering::SeqCst);
                    })
                    .unwrap();
                }));
            }
        });
    });
    outcome.unwrap();
}

/// One client, both faces: a plain function re-enters the hold of the async code that called it, and the other way round.
#[test]
fn the_faces_re_enter_each_other() {
    let runtime = runtime();
    let client = lock_runtime::LockClient::in_memory();
    let face = LockClient::from(client.clone());
    runtime.block_on(async {
        let outer = client.mutex("both").lock().await.unwrap();
        let lock = face.mutex("both").with(never());
        let nested = move || lock.run(|hold| hold.token());
        let body = async { tokio::task::spawn_blocking(inherit(nested)).await.unwrap().unwrap() };
        assert_eq!(outer.run(body).await.unwrap(), outer.token());
    });
    let asks = client.mutex("both").with(never());
    let nested = face.mutex("both").run(|_| runtime.block_on(asks.lock()).map(drop));
    nested.unwrap().unwrap();
}

/// Every kind enters and leaves: what is shared, what is counted, what would deadlock.
#[test]
fn the_other_kinds_follow_their_rules() {
    let client = LockClient::in_memory().unwrap();
    let prices = client.rw_lock("prices").with(never());
    let reader = prices.run_write(|_| prices.read().unwrap()).unwrap();
    assert!(prices.try_write().unwrap().is_none());
    let error = reader.run(|_| prices.write().map(drop)).unwrap().unwrap_err();
    assert!(matches!(error, LockError::WouldDeadlock { .. }), "{error:?}");
    reader.release().unwrap();

    let permits = client.semaphore("s", NonZeroU32::new(2).unwrap()).with(never());
    let both = permits.acquire_many(permits.limit()).unwrap();
    assert_eq!(both.permits().get(), 2);
    assert!(permits.acquire().unwrap_err().is_busy());
    both.release().unwrap();
    permits.run(|_| ()).unwrap();

    let fair = client.fair_mutex("f").with(never());
    let all = MultiLock::of([
        fair.clone().into(),
        client.mutex("m").into(),
        MultiMember::read(&prices),
        MultiMember::permits(&permits, NonZeroU32::MIN),
    ]);
    all.run(|_| {
        fair.run(|_| ()).unwrap();
        let elsewhere = |lock: lock_runtime::blocking::Mutex| {
            thread::spawn(move || lock.try_lock().unwrap().is_some()).join().unwrap()
        };
        assert!(!elsewhere(client.mutex("m")));
    })
    .unwrap();
    let error = MultiLock::of([]).lock().unwrap_err();
    assert!(matches!(error, LockError::InvalidOptions(_)), "{error:?}");
}

/// A multi lock of two clients outlives both: their runtimes go on for it.
#[test]
fn a_multi_lock_keeps_the_runtimes_of_its_clients() {
    let tools = Tools::start();
    let (one, two) = (tools.client(), tools.client());
    let both = MultiLock::of([one.mutex("a").into(), two.fair_mutex("b").into()]);
    let guard = both.with(leased(Lease::Watchdog(LEASE))).lock().unwrap();
    let connections = tools.connections();
    drop((one, two));
    thread::sleep(LEASE + LEASE / 2);
    guard.check().unwrap();
    assert!(tools.is_held("a") && tools.is_held("b"));
    let now = tools.connections();
    assert!(now.is_superset(&connections), "{connections:?} became {now:?}");
    guard.release().unwrap();
    assert!(!tools.is_held("a") && !tools.is_held("b"));
}
