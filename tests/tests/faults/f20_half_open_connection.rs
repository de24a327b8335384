//! Fault 20: a router forgets the connection of a client that waits for locks and sends nothing: nothing more arrives, and no
//! side is told.
//!
//! - Promised: the waiter has a lock that becomes free at the latest when it looks by itself (`poll_cap`, 5 s by default, 1 s
//!   here) and finds that nothing answers; then it works over a new connection.
//! - Seen: all locks 2.3 to 2.5 s after they became free.

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_waiter_finds_out() {
    let mut drill = Drill::start().await;
    let router = Proxy::start(drill.server.port()).await;
    let held = hold_each(&drill.near.client, SOON * 2).await;
    let mut waiting = Vec::new();
    for job in [Job::Mutex, Job::Fair, Job::Write, Job::Pair] {
        // Each of its own client, or the first that asks would find out for all.
        let idle = LockClient::builder().poll_cap(secs(1)).command_timeout(ANSWER);
        let idle = idle.connect(&router.url()).await.unwrap();
        let acquire = async move { job.acquire(&idle, &own_name(job), watched(LEASE)).await };
        waiting.push(tokio::spawn(acquire));
    }
    let raw = drill.server.client();
    for job in [Job::Mutex, Job::Fair, Job::Write, Job::Pair] {
        let listens = async || listeners(&raw, &own_name(job)).await > 0;
        eventually(SOON, &format!("a waiter for {job:?} listens"), listens).await;
    }
    let connections = router.accepted();
    let sever = async |drill: &mut Drill| {
        router.sever_all();
        drill.proxy.sever_all();
        release_each(held).await;
        let free = Instant::now();
        for acquired in waiting {
            let acquired = timeout(secs(5), acquired).await.expect("the waiter has it");
            acquired.unwrap().unwrap().release().await.unwrap();
        }
        eprintln!("all locks after {:?}", free.elapsed());
        assert!(router.accepted() > connections, "over the same connection");
    };
    drill.fault(May::Delay, sever).await;
    drop(router);
    drill.end(secs(3)).await;
}
