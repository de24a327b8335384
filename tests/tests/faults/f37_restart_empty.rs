//! Fault 37: the server is killed and comes back without its data, while locks are held.
//!
//! - Promised: every holder learns from its next renewal that it has lost the lock, also if another has it by then; the next
//!   token is greater all the same; the old holder's release takes nothing from the next; every lock within 3 s.
//! - Seen: 0.1 to 0.4 s; the holders after at most a third of their lease.

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lock_recovers() {
    let mut drill = Drill::start().await;
    let kept = Kept::take(&drill.near.client, "kept").await;
    let restart = async |drill: &mut Drill| {
        drill.loses(async { drill.server.kill() }).await;
        drill.server.restart().await;
    };
    drill.fault(May::Delay, restart).await;
    kept.are_lost(&drill.far.client).await;
    drill.end(secs(3)).await;
}
