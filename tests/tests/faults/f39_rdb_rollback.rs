//! Fault 39: the server is killed and comes back with a snapshot in which a lock has its holder before last.
//!
//! - Promised: the present holder learns of the loss from its next renewal; the holder in the snapshot never acts on it; the
//!   lock is free when the lease in the snapshot ends; the next token is greater than both; every lock within 4 s.
//! - Seen: 0.7 to 1 s; the lease in the snapshot is waited for.

use crate::prelude::*;

drill!(
    every_lock_recovers,
    Drill::start(),
    May::Delay,
    secs(4),
    async |drill| {
        // Its end in the snapshot, as it is not renewed in there.
        let lease = secs(4);
        let before = Kept::take_for(&drill.far.client, "kept", lease).await;
        drill.server.client().cmd(&["SAVE"]).await;
        before.release().await;
        let kept = Kept::take(&drill.near.client, "kept").await;
        drill.loses(async { drill.server.kill() }).await;
        drill.server.restart().await;
        assert!(drill.server.client().exists("kept mutex").await, "not in the snapshot");
        kept
    },
    async |drill, kept: Kept| kept.are_lost(&drill.far.client).await
);
