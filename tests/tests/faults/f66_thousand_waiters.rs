//! Fault 66: a thousand tasks of two clients wait for one lock.
//!
//! - Promised: each release wakes one of them, and those of a client in their order; the commands for each grant do not grow
//!   with the number of waiters; all are served.
//! - Seen: 1 000 waiters for a mutex: 17 to 36 scripts in all, 0.1 s; 500 for the write
//!   side: 8 to 14 scripts; 200 for a fair mutex: 2 scripts each, as for 20.

use std::sync::{Arc, Mutex};

use futures_util::poll;
use tokio::task::JoinSet;

use crate::prelude::*;

test_with!(one_is_woken_at_a_time, RedisServer::start(), async |server| {
    // What a fair mutex asks for each waiter is its place and its turn.
    for (kind, waiters, most) in [("mutex", 1_000, 1), ("write", 500, 1), ("fair", 200, 4)] {
        for waiters in [waiters / 10, waiters] {
            let scripts = crowd(&server, kind, waiters).await;
            assert!(scripts <= most * waiters, "{kind}: {scripts} scripts for {waiters}");
        }
    }
});

/// Has so many tasks of two clients wait for a lock and get it. Returns how many scripts that took.
async fn crowd(server: &RedisServer, kind: &'static str, waiters: usize) -> usize {
    // However busy the machine is, each hold is handed on.
    let connect =
        async || LockClient::builder().handoff_window(SOON).connect(&server.url()).await.unwrap();
    let (holder, clients) = (connect().await, [connect().await, connect().await]);
    let held = take(&holder, kind, kind, waits(SOON)).await.unwrap();
    let granted = Arc::new(Mutex::new([Vec::new(), Vec::new()]));
    let mut tasks = JoinSet::new();
    for number in 0..waiters {
        let (client, granted) = (clients[number % 2].clone(), Arc::clone(&granted));
        let mut acquire = Box::pin(async move { take(&client, kind, kind, waits(3 * SOON)).await });
        assert!(poll!(&mut acquire).is_pending());
        tasks.spawn(async move {
            let guard = acquire.await.unwrap();
            granted.lock().unwrap()[number % 2].push(number);
            guard.release().await.unwrap();
        });
    }
    // As many as ask the store themselves: of a fair mutex one of each client, too.
    eventually(SOON, "both clients listen", async || {
        listeners(&server.client(), kind).await >= clients.len()
    })
    .await;
    server.reset_stats().await;
    let start = Instant::now();
    held.release().await.unwrap();
    let served = async { while tasks.join_next().await.transpose().unwrap().is_some() {} };
    timeout(2 * SOON, served).await.expect("one of them is forgotten");
    let scripts = server.command_calls().await["evalsha"];
    eprintln!("{waiters} times {kind}: {scripts} scripts in {:?}", start.elapsed());
    let granted = granted.lock().unwrap();
    assert_eq!(granted[0].len() + granted[1].len(), waiters);
    for order in granted.iter() {
        assert!(order.is_sorted(), "{kind}: out of order: {order:?}");
    }
    usize::try_from(scripts).unwrap()
}
