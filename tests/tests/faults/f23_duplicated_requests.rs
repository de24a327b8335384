//! Fault 23: requests arrive at the server twice, at once or later, as when a client library sends again what it believes
//! lost.
//!
//! - Promised: a lock is held once for it, and one release releases it; a duplicate that comes after the release can hold a
//!   lock for one lease at most, or keep a place in a queue for one waiter lease.
//! - Seen: one hold each time; every lock again within 1.8 s.

use lock_tests::crew::LOCKS;

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_counts_once() {
    let mut drill = Drill::start().await;
    let duplicate = async |drill: &mut Drill| {
        let arrived = async |count| {
            let proxy = &drill.proxy;
            eventually(SOON, "it arrives twice", async || proxy.requests_duplicated() == count)
                .await;
        };
        for (count, job) in (1..).zip(Job::ALL) {
            let name = own_name(job);
            drill.proxy.duplicate_next_request_with(&name);
            let acquire = job.acquire(&drill.far.client, &name, watched(SOON * 2));
            let guard = acquire.await.unwrap();
            arrived(count).await;
            guard.release().await.unwrap();
        }
        soon_free(&drill.near.client).await;
        for name in LOCKS {
            drill.proxy.duplicate_next_request_with(name);
        }
        arrived(Job::ALL.len() + LOCKS.len()).await;
        for name in LOCKS {
            drill.proxy.keep_next_request_with(name);
        }
        drill.far.work(1).await;
        assert!(drill.proxy.deliver_kept().await > 0, "nothing was kept");
        sleep(LEASE).await;
    };
    drill.fault(May::Repeat, duplicate).await;
    // The place of a copy expires after one waiter lease; a waiter may have extended the set of places by another.
    sleep(WAITER_LEASE * 2).await;
    drill.end(secs(3)).await;
}
