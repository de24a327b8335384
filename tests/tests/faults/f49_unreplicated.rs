//! Fault 49: the master dies with locks that no replica has, and a replica takes over.
//!
//! - Promised: every holder of such a lock learns of the loss from its first renewal at the new master, also if another has it
//!   by then; tokens grow all the same; every lock within 5 s of the new master.
//! - Seen: 0.1 to 0.3 s after the new master is named.

use crate::prelude::*;

drill!(
    every_lock_recovers,
    Drill::with_sentinels(),
    May::Delay,
    secs(5),
    async |drill| {
        drill.nodes[1].pause();
        // Or the replica would have the commands in its socket, and run them later.
        drill.nodes[0].client_kill(ClientType::Replica).await;
        // A failover may take a while, and the store is to tell of the loss.
        let kept = Kept::take_for(&drill.near.client, "kept", secs(15)).await;
        drill.near.works().await;
        drill.loses(async { drill.nodes[0].kill() }).await;
        drill.dead.push(0);
        drill.nodes[1].resume();
        drill.promoted().await;
        kept
    },
    async |drill, kept: Kept| kept.are_lost(&drill.far.client).await
);
