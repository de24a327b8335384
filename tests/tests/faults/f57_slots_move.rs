//! Fault 57: the slots of all locks move to another node of the cluster, key by key, while the locks are used (MOVED, ASK,
//! TRYAGAIN).
//!
//! - Promised: acquires, renewals and releases follow; no hold is lost that is renewed in time; waiters hear of releases at the
//!   new place; every lock within 4 s.
//! - Seen: 0.2 to 0.9 s.

use crate::prelude::*;

drill!(
    every_lock_recovers,
    async { Drill::among(Slots::new(RedisCluster::with_spares(1).await), Habits::default()).await },
    May::Delay,
    secs(4),
    async |drill| {
        let kept = Kept::take(&drill.near.client, "kept").await;
        for name in LOCKS.into_iter().chain(["kept mutex", "kept fair", "kept write"]) {
            let slot = drill.cluster.slot(name).await;
            drill.cluster.move_slot(slot, 3, &[], sleep(ms(50))).await;
        }
        kept
    },
    async |drill, kept: Kept| {
        drill.alive.push(3);
        kept.are_kept().await;
    }
);
