//! Fault 61: two of the five servers of a quorum are killed, and come back without their data.
//!
//! - Promised: mutexes go on with the other three; every party has the mutex again within 4 s.
//! - Seen: 0.3 to 0.8 s; the dead servers are not waited for.

use crate::prelude::*;

drill!(mutexes_go_on, Drill::of_a_quorum(5), May::Delay, secs(4), async |drill| {
    let usual = both_work(drill).await;
    drill.loses_in_part(async { [1, 3].map(|node| drill.nodes[node].kill()) }).await;
    let took = both_work(drill).await;
    assert!(took < patience(usual * 2 + secs(4)), "the dead servers are waited for: {took:?}");
    drill.nodes[1].restart().await;
    drill.nodes[3].restart().await;
});

/// How long both clients take to have the mutex a few times.
async fn both_work(drill: &Drill<Masters>) -> Duration {
    let start = Instant::now();
    drill.near.works().await;
    drill.far.works().await;
    start.elapsed()
}
