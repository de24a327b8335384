//! Fault 59: the master's replica is far behind: it stands still while locks are used and looked at.
//!
//! - Promised: no client reads or writes anything at a replica, so it can neither delay nor mislead one.
//! - Seen: not one script at the replica; 0.2 s.

use crate::prelude::*;

drill!(
    no_replica_is_asked,
    Drill::with_sentinels(),
    May::Delay,
    secs(3),
    async |drill| {
        let kept = Kept::take_for(&drill.far.client, "kept", secs(15)).await;
        drill.nodes[1].pause();
        drill.near.works().await;
        for kind in EXCLUSIVE {
            let found = drill.near.client.admin().inspect(format!("kept {kind}")).await.unwrap();
            assert!(found.kind.is_some(), "{kind}: {found:?}");
        }
        drill.nodes[1].resume();
        kept
    },
    async |drill, kept: Kept| {
        kept.release().await;
        let calls = drill.nodes[1].command_calls().await;
        // What the master replicates is no script, and the tests and the sentinels send none of these.
        for command in ["evalsha", "script|load", "hello"] {
            assert!(!calls.contains_key(command), "{calls:?}");
        }
    }
);
