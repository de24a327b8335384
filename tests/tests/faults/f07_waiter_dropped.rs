//! Fault 7: a program drops the future of an acquire that waits in the queue.
//!
//! - Promised: its place goes at once, in the queue of a fair lock too, and the waiter behind it has the lock when it is free.
//! - Seen: no place is left after 0.1 s, with a waiter lease of 20 s; all next waiters within 0.1 s of the release.

use crate::prelude::*;

/// Less than what ends a place or a wait by itself: the waiter lease, the lease of the holder, the poll cap.
const AT_ONCE: Duration = secs(10);

drill!(the_next_waiter_has_the_lock, async |drill| {
    let mut held = hold_each(&drill.near.client, SOON * 2).await;
    // There are two.
    let permits = own_name(Job::Permits);
    held.push(Job::Permits.acquire(&drill.near.client, &permits, watched(SOON * 2)).await.unwrap());
    let connect = async |url: &str| {
        let client = LockClient::builder().waiter_lease(SOON).poll_cap(SOON * 2);
        client.connect(url).await.unwrap()
    };
    let dropping = connect(&drill.proxy.url()).await;
    let other = connect(&drill.server.url()).await;
    let raw = drill.server.client();
    let all_wait = async |client: &LockClient| {
        let mut waiters = Vec::new();
        for job in Job::ALL {
            let before = (listeners(&raw, &own_name(job)).await, places(&raw, job).await);
            waiters.push(tokio::spawn(next(client.clone(), job)));
            eventually(SOON, &format!("one more waits for {job:?}"), async || {
                listeners(&raw, &own_name(job)).await > before.0
                    && places(&raw, job).await == before.1.map(|count| count + 1)
            })
            .await;
        }
        waiters
    };
    let dropped = all_wait(&dropping).await;
    let waiters = all_wait(&other).await;
    dropped.iter().for_each(|waiter| waiter.abort());
    for job in Job::ALL {
        let is_gone = async || places(&raw, job).await.is_none_or(|count| count == 1);
        eventually(AT_ONCE, &format!("the place at {job:?} goes"), is_gone).await;
    }
    let free = Instant::now();
    release_each(held).await;
    for waiter in waiters {
        let guard = timeout(AT_ONCE, waiter).await.expect("the next waiter has it").unwrap();
        guard.release().await.unwrap();
    }
    eprintln!("all next waiters after {:?}", free.elapsed());
    assert!(dropping.shutdown(SOON).await.is_clean() && other.shutdown(SOON).await.is_clean());
});

/// Waits for the test's own lock of that kind.
async fn next(client: LockClient, job: Job) -> LockGuard {
    // A reader waits for writers only.
    let asked = if job == Job::Read { Job::Write } else { job };
    asked.acquire(&client, &own_name(job), watched(SOON)).await.unwrap()
}

/// How many waiters have a place on the server, where the kind has places.
async fn places(raw: &RawClient, job: Job) -> Option<usize> {
    let name = own_name(job);
    match job {
        Job::Fair => Some(raw.get(&["LLEN", &format!("redisson_lock_queue:{{{name}}}")]).await),
        Job::Read | Job::Write => {
            Some(raw.get(&["ZCARD", &format!("redisson_rwlock_writers:{{{name}}}")]).await)
        }
        _ => None,
    }
}
