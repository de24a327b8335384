//! The line inside one hold: its order, its bounds, its end (S-6, S-18).

use lock_runtime::scope;

use crate::kinds::siblings::soon;
use crate::prelude::*;

async fn reentry(client: &LockClient) -> LockGuard {
    client.mutex("m").lock().await.unwrap()
}

/// A waiter whose turn has not come, because another has it and is not polled, has nothing to wait for once the hold is gone.
#[tokio::test(start_paused = true)]
async fn a_waiter_behind_a_sleeper_outlives_the_hold() {
    let client = LockClient::in_memory();
    let outer = reentry(&client).await;
    let mut asleep = Box::pin(reentry(&client));
    let inside = async {
        let first = reentry(&client).await;
        assert!(poll!(&mut asleep).is_pending());
        let lock = client.mutex("m").wait(Wait::Forever);
        let waiter = lock_tests::spawn(scope::inherit(async move { lock.lock().await }));
        sleep(ms(1)).await;
        (first, waiter)
    };
    let (first, waiter) = outer.run(inside).await.unwrap();
    outer.release().await.unwrap();
    assert!(!waiter.is_finished(), "two are inside");
    first.release().await.unwrap();
    let guard = timeout(ms(100), waiter).await.expect("it waits inside of a hold that is gone");
    let guard = guard.unwrap().unwrap();
    assert!(poll!(&mut asleep).is_pending(), "two are inside");
    guard.release().await.unwrap();
    asleep.await.release().await.unwrap();
}

/// One that leaves the line lets in those behind it, if only it was in their way.
#[tokio::test(start_paused = true)]
async fn a_write_that_leaves_the_line_lets_in_the_reads_behind_it() {
    let client = LockClient::in_memory();
    let lock = client.rw_lock("rw");
    let outer = lock.write().await.unwrap();
    let inside = async {
        let one = lock.read().await.unwrap();
        let mut write = Box::pin(lock.write());
        assert!(poll!(&mut write).is_pending(), "a write beside a read");
        let (mut two, mut three) = (pin!(lock.read()), pin!(lock.read()));
        assert!(poll!(&mut two).is_pending() && poll!(&mut three).is_pending(), "they overtook");
        drop(write);
        let (two, three) = tokio::join!(two, three);
        drop((one, two.unwrap(), three.unwrap()));
    };
    soon(outer.run(inside)).await.unwrap();
}

/// S-18, S-20: the line is bounded, and a shutdown ends it.
#[tokio::test(start_paused = true)]
async fn the_line_is_bounded_and_ends_with_the_client() {
    let client = LockClient::in_memory();
    let bounded = LockOptions::new().max_waiters(1);
    let lock = client.mutex("m").with(bounded);
    let outer = lock.lock().await.unwrap();
    let inside = async {
        let first = lock.lock().await.unwrap();
        let mut second = pin!(lock.lock());
        assert!(poll!(&mut second).is_pending());
        let third = lock.lock().await;
        assert!(
            matches!(third, Err(LockError::Busy { reason: BusyReason::TooManyWaiters, .. })),
            "{third:?}"
        );
        let (second, _) = tokio::join!(second, client.shutdown(ms(10)));
        assert!(matches!(second, Err(LockError::Closed)), "{second:?}");
        drop(first);
    };
    soon(outer.run(inside)).await.unwrap();
}

/// S-6: a longer lease is asked for when the turn has come, once.
#[tokio::test(start_paused = true)]
async fn a_re_entry_extends_when_its_turn_has_come() {
    let client = LockClient::in_memory();
    let fixed = |secs| {
        let lease = Lease::Fixed(Duration::from_secs(secs));
        client.mutex("m").with(leased(lease))
    };
    let outer = fixed(2).lock().await.unwrap();
    let inside = async {
        let first = fixed(2).lock().await.unwrap();
        let longer = fixed(10);
        let mut second = pin!(longer.lock());
        assert!(poll!(&mut second).is_pending());
        assert!(outer.remaining() < Duration::from_secs(2), "extended before its turn");
        first.release().await.unwrap();
        let second = second.await.unwrap();
        assert!(second.remaining() > Duration::from_secs(8), "{:?}", second.remaining());
    };
    soon(outer.run(inside)).await.unwrap();
}
