//! Fault 60: every node of a cluster cuts off its subscribers, three times over.
//!
//! - Promised: the clients subscribe anew, at the node that has the lock's slot; releases are published in that slot only;
//!   every lock within 4 s.
//! - Seen: 0.1 to 0.3 s, by waiters that would ask by themselves only after two minutes.

use crate::prelude::*;

drill!(
    every_lock_recovers,
    Drill::in_a_cluster(),
    May::Delay,
    secs(4),
    async |drill| {
        let idle = Idle::start(&drill.far_config(), &**drill).await;
        idle.delete_locks(&**drill).await;
        for _ in 0..3 {
            let mut cut = 0;
            for node in drill.servers() {
                cut += node.client_kill(ClientType::PubSub).await;
            }
            assert!(cut >= 3, "only {cut} subscribers");
            drill.near.works().await;
        }
        idle.all_acquire().await;
    },
    async |drill, ()| {
        for node in drill.servers() {
            let calls = node.command_calls().await;
            assert!(!calls.contains_key("publish"), "sent to all nodes: {calls:?}");
        }
    }
);
