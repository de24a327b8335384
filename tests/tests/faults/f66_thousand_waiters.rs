//! Fault 66: a thousand tasks of two clients wait for one lock.
//!
//! - Promised: each release wakes one of them, in turn; the commands for each grant do not grow with the number of waiters; all
//!   are served.
//! - Seen: 1 000 waiters for a mutex: 17 to 36 scripts in all, 0.1 s; 500 for the write side: 8 to 14 scripts; 200 for
//!   a fair mutex: 2 scripts each.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::poll;
use tokio::task::JoinSet;

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_is_woken_at_a_time() {
    let server = RedisServer::start().await;
    let connect = async || LockClient::connect(&server.url()).await.unwrap();
    let [holder, one, other] = [connect().await, connect().await, connect().await];
    // What a fair mutex asks for each waiter is its place and its turn.
    for (kind, waiters, most) in [("mutex", 1_000, 1), ("write", 500, 1), ("fair", 200, 4)] {
        let held = take(&holder, kind, kind, waits(SOON)).await.unwrap();
        let waiting = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for client in [&one, &other].into_iter().cycle().take(waiters) {
            let (client, waiting) = (client.clone(), Arc::clone(&waiting));
            tasks.spawn(async move {
                let mut acquire = pin!(take(&client, kind, kind, waits(3 * SOON)));
                assert!(poll!(&mut acquire).is_pending());
                waiting.fetch_add(1, Ordering::Relaxed);
                acquire.await.unwrap().release().await.unwrap();
            });
        }
        let all_wait = async || waiting.load(Ordering::Relaxed) == waiters;
        eventually(SOON, "all wait", all_wait).await;
        sleep(ms(100)).await;
        server.reset_stats().await;
        let start = Instant::now();
        held.release().await.unwrap();
        let served = async { while tasks.join_next().await.transpose().unwrap().is_some() {} };
        timeout(2 * SOON, served).await.expect("one of them is forgotten");
        let commands = server.command_calls().await["evalsha"];
        eprintln!("{waiters} times {kind}: {commands} scripts in {:?}", start.elapsed());
        assert!(commands <= most * u64::try_from(waiters).unwrap(), "{kind}: {commands} scripts");
    }
}
