//! Fault 37: the server is killed and comes back without its data, while locks are held.
//!
//! - Promised: every holder learns from its next renewal that it has lost the lock, also if another has it by then; the next
//!   token is greater all the same; the old holder's release takes nothing from the next; every lock within 3 s.
//! - Seen: 0.1 to 0.4 s; the holders after at most a third of their lease.

use crate::prelude::*;

drill!(
    every_lock_recovers,
    Drill::start(),
    May::Delay,
    secs(3),
    async |drill| {
        let kept = Kept::take(&drill.near.client, "kept").await;
        drill.loses(async { drill.server.kill() }).await;
        drill.server.restart().await;
        kept
    },
    async |drill, kept: Kept| kept.are_lost(&drill.far.client).await
);
