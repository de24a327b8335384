//! What many holds and many waiters keep in memory.

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::poll;
use lock_runtime::acquire::Acquire;
use lock_runtime::{LockClient, LockGuard};
use lock_tests::{RedisServer, eventually};
use tokio::time::timeout;

use super::{alone, live_bytes};

/// Plenty for a busy machine.
const BOUND: Duration = Duration::from_secs(60);

/// A hold that the watchdog renews, with its guard, its name, and its share of the tables that contain it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_keeps_less_than_a_thousand_bytes() {
    const HOLDS: usize = 25_000;
    const TASKS: usize = 64;
    let _alone = alone().await;
    let server = RedisServer::start().await;
    let client = LockClient::connect(&server.url()).await.unwrap();
    // As long as the names of real locks.
    let take = async |name: String| client.mutex(name).lock().await.unwrap();
    take("warm".to_owned()).await.release().await.unwrap();
    let before = live_bytes();
    let mut guards: Vec<LockGuard> = Vec::with_capacity(HOLDS);
    for first in (0..HOLDS).step_by(TASKS) {
        let some = (first..HOLDS.min(first + TASKS)).map(|n| take(format!("order:{n:08}")));
        guards.extend(join_all(some).await);
    }
    // Renewals under way have memory of their own for a moment.
    let bytes = || (live_bytes() - before) / HOLDS;
    let all = format!("at most 1 000 of {} bytes for each hold", bytes());
    eventually(BOUND, &all, async || bytes() <= 1_000).await;
    println!("{} bytes for each hold", bytes());
    join_all(guards.into_iter().map(LockGuard::release)).await;
    // What ends after this test would be counted in the next.
    assert!(client.shutdown(BOUND).await.is_clean());
}

/// A future that waits for a lock, with all that belongs to the wait. The task that polls it is the program's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_keeps_a_bounded_number_of_bytes() {
    const WAITERS: usize = 5_000;
    const MOST: usize = 1_000;
    let _alone = alone().await;
    let server = RedisServer::start().await;
    let client = LockClient::connect(&server.url()).await.unwrap();
    let mutex = client.mutex("crowded");
    let guard = mutex.lock().await.unwrap();
    let wait = async |waiting: &mut Vec<Acquire>, count: usize| {
        for _ in 0..count {
            let mut lock = mutex.lock();
            // With its first poll it is in the queue.
            assert!(poll!(&mut lock).is_pending());
            waiting.push(lock);
        }
    };
    let mut waiting = Vec::with_capacity(10 + WAITERS);
    // The first contends, and what the gate needs for waiters exists.
    wait(&mut waiting, 10).await;
    let before = live_bytes();
    wait(&mut waiting, WAITERS).await;
    let bytes = (live_bytes() - before) / WAITERS + size_of::<Acquire>();
    guard.release().await.unwrap();
    let all = join_all(waiting.into_iter().map(async |lock| lock.await?.release().await));
    for ended in timeout(BOUND, all).await.expect("a hang") {
        ended.unwrap();
    }
    println!("{bytes} bytes for each waiter");
    assert!(bytes <= MOST, "{bytes} bytes for each waiter");
}
