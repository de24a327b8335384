//! Fault 50: the master stands still until a replica has taken over, and then goes on as a master.
//!
//! - Promised: no client uses it any more, and no grant of it counts, so no lock has two holders; every lock within 5 s of the
//!   new master.
//! - Seen: 0.1 to 0.3 s after the new master is named; not one script at the old master after it went on.

use crate::prelude::*;

drill!(
    every_lock_recovers,
    Drill::with_sentinels(),
    May::Delay,
    secs(5),
    async |drill| {
        // Or they would tell the old master at once that it is none.
        drill.sentinels.publish_every(secs(10)).await;
        drill.nodes[0].pause();
        drill.promoted().await;
        drill.near.works().await;
        drill.nodes[0].resume();
        // What reached it before it stopped is run now.
        sleep(LEASE / 2).await;
        let old = &drill.nodes[0];
        let _ = old.client().try_cmd(&["PING"]).await;
        let asked = async || old.command_calls().await.get("evalsha").copied();
        let before = asked().await;
        sleep(LEASE).await;
        assert_eq!(asked().await, before, "the old master is asked for locks");
        let info: String = old.client().get(&["INFO", "replication"]).await;
        assert!(info.contains("role:master"), "it has been told: nothing was tested");
    },
    async |drill, ()| drill.dead.push(0)
);
