//! A recorder that panics costs no lock.

use crate::observe::recorder::Kept;
use crate::observe::scenario::*;

/// The hold passes from task to task in this process and is freed at the end, by releases or by drops.
async fn passes_on(pair: &Pair, releases: bool) {
    let mutex = pair.client.mutex("a").wait(SOON);
    let end = async |guard: LockGuard| {
        if releases {
            guard.release().await.unwrap();
        }
    };
    let first = mutex.lock().await.unwrap();
    let next = async || {
        let guard = mutex.lock().await.unwrap();
        let token = guard.token().get();
        end(guard).await;
        token
    };
    // In this order: three wait when the first holder goes, and the first of them has tokens for the others.
    let (one, two, three, ()) = tokio::join!(next(), next(), next(), end(first));
    assert_eq!((two, three), (one + 1, one + 2), "not handed on");
    pair.other.mutex("a").wait(SOON).lock().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_recorder_that_panics_loses_no_lock() {
    // All metrics; and one that is recorded after the next waiter was taken out of the queue, before it has the hold.
    for broken in [Kept::broken("lock_"), Kept::broken("lock_hold_seconds")] {
        let _here = metrics::set_default_local_recorder(&broken);
        let pair = memory();
        passes_on(&pair, true).await;
        passes_on(&pair, false).await;
        // A waiter of the same process comes in after a loss.
        let mutex = pair.client.mutex("b").wait(SOON);
        let lost = mutex.clone().with(fixed(ms(100))).lock().await.unwrap();
        let (cause, next) = tokio::join!(lost.lost(), mutex.lock());
        assert!(cause.is_lost());
        next.unwrap().release().await.unwrap();
    }
}
