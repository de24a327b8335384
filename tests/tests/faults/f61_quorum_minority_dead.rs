//! Fault 61: two of the five servers of a quorum are killed, and come back without their data.
//!
//! - Promised: mutexes go on with the other three; every party has the mutex again within 4 s.
//! - Seen: 0.3 to 0.8 s; the dead servers are not waited for.

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mutexes_go_on() {
    let world = Masters::start(5, "none").await;
    let mutexes_only = Habits { mutexes_only: true, ..Habits::default() };
    let mut drill = Drill::among(world, mutexes_only).await;
    let kill = async |drill: &mut Drill<Masters>| {
        let usual = both_work(drill).await;
        drill.loses_in_part(async { [1, 3].map(|node| drill.nodes[node].kill()) }).await;
        let took = both_work(drill).await;
        assert!(took < patience(usual * 2 + secs(4)), "the dead servers are waited for: {took:?}");
        drill.nodes[1].restart().await;
        drill.nodes[3].restart().await;
    };
    drill.fault(May::Delay, kill).await;
    drill.end(secs(4)).await;
}

/// How long both clients take to have the mutex a few times.
async fn both_work(drill: &Drill<Masters>) -> Duration {
    let start = Instant::now();
    drill.near.works().await;
    drill.far.works().await;
    start.elapsed()
}
