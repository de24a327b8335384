//! S-6, S-7 on threads.

use lock_runtime::{MultiLock, MultiMember};

use crate::prelude::*;

/// Fails at once in place of waiting, so that a missing re-entry is no deadlock.
fn never() -> LockOptions {
    LockOptions::new().wait(Wait::None)
}

/// S-7: a guard gives no re-entry once its run has ended, or panicked.
#[test]
fn a_guard_whose_run_has_ended_gives_no_re_entry() {
    let client = LockClient::in_memory();
    let guard = client.mutex("p").blocking_lock().unwrap();
    guard.run_blocking(|_| ()).unwrap();
    let run = std::panic::AssertUnwindSafe(|| guard.run_blocking(|_| panic!("on purpose")));
    std::panic::catch_unwind(run).unwrap_err();
    assert!(block_on(client.mutex("p").try_lock()).unwrap().is_none());
}

#[test]
fn another_thread_waits_unless_its_closure_inherits() {
    let client = LockClient::in_memory();
    let lock = client.mutex("t");
    let asks = || {
        let lock = lock.clone();
        move || block_on(lock.try_lock()).unwrap().map(|guard| guard.token())
    };
    let run = |outer: &LockGuard| {
        assert_eq!(thread::spawn(asks()).join().unwrap(), None);
        let inherits = thread::spawn(inherit_blocking(asks())).join().unwrap();
        assert_eq!(inherits, Some(outer.token()));
        inherit_blocking(asks())
    };
    let later = lock.run_blocking(run).unwrap();
    let _held = lock.blocking_lock().unwrap();
    assert_eq!(later(), None, "it re-entered a hold that has ended");
}

/// One client, both worlds: a plain function re-enters the hold of the async code that called it, and the other way round.
#[test]
fn blocking_and_async_calls_re_enter_each_other() {
    let runtime = runtime();
    let client = LockClient::in_memory();
    runtime.block_on(async {
        let outer = client.mutex("both").lock().await.unwrap();
        let lock = client.mutex("both").with(never());
        let nested = move || lock.run_blocking(|hold| hold.token());
        let body =
            async { tokio::task::spawn_blocking(inherit_blocking(nested)).await.unwrap().unwrap() };
        assert_eq!(outer.run(body).await.unwrap(), outer.token());
    });
    let asks = client.mutex("both").with(never());
    let nested = client.mutex("both").run_blocking(|_| runtime.block_on(asks.lock()).map(drop));
    nested.unwrap().unwrap();
}

/// Every kind enters and leaves: what is shared, what is counted, what would deadlock.
#[test]
fn the_other_kinds_follow_their_rules() {
    let client = LockClient::in_memory();
    let prices = client.rw_lock("prices").with(never());
    let reader = prices.run_write_blocking(|_| prices.blocking_read().unwrap()).unwrap();
    assert!(block_on(prices.try_write()).unwrap().is_none());
    let error = reader.run_blocking(|_| prices.blocking_write().map(drop)).unwrap().unwrap_err();
    assert!(matches!(error, LockError::WouldDeadlock { .. }), "{error:?}");
    reader.blocking_release().unwrap();

    let permits = client.semaphore("s", 2).with(never());
    let both = block_on(permits.acquire_many(permits.limit())).unwrap();
    assert!(block_on(permits.try_acquire()).unwrap().is_none());
    assert!(permits.blocking_acquire().unwrap_err().is_busy());
    both.blocking_release().unwrap();
    permits.run_blocking(|_| ()).unwrap();

    let fair = client.fair_mutex("f").with(never());
    let all = MultiLock::of([
        fair.clone().into(),
        client.mutex("m").into(),
        MultiMember::read(&prices),
        MultiMember::permits(&permits, 1),
    ]);
    all.run_blocking(|_| {
        fair.run_blocking(|_| ()).unwrap();
        let elsewhere = |lock: lock_runtime::Mutex| {
            thread::spawn(move || block_on(lock.try_lock()).unwrap().is_some()).join().unwrap()
        };
        assert!(!elsewhere(client.mutex("m")));
    })
    .unwrap();
    let error = MultiLock::of([]).blocking_lock().unwrap_err();
    assert!(matches!(error, LockError::InvalidOptions(_)), "{error:?}");
}
