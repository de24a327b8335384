//! Fault 51: the only replica stands still, and its connection is cut, while every hold has to be on a replica.
//!
//! - Promised: no client is granted a lock meanwhile, and an acquire says how many replicas have it; every lock within 5 s of the
//!   replica's return.
//! - Seen: 0.1 to 0.5 s; no grant after the readers have left that shared a hold that the replica has.

use crate::prelude::*;

test_with!(every_lock_recovers, Failover::start(RedisServer::builder(), 1), async |mut world| {
    world.defaults = "replicas = { acks = 1, timeout = '250ms' }";
    let mut drill = Drill::among(world, Habits { replicas: 1, ..Habits::default() }).await;
    let cut_off = async |drill: &mut Drill<Failover>| {
        drill.nodes[1].pause();
        drill.nodes[0].client_kill(ClientType::Replica).await;
        // Local readers share a hold that the replica has, as long as one of them reads.
        sleep(2 * LEASE).await;
        let grants = [drill.near.grants(), drill.far.grants()];
        for kind in EXCLUSIVE {
            let options = LockOptions::new().wait(ANSWER).replicas(Replicas::new(1, ms(100)));
            let name = format!("alone {kind}");
            let error = take(&drill.near.client, kind, &name, options).await.unwrap_err();
            let no_replica = matches!(error, LockError::NotReplicated { acked: 0, wanted: 1, .. });
            assert!(no_replica, "{kind}: {error:?}");
        }
        assert_eq!(
            [drill.near.grants(), drill.far.grants()],
            grants,
            "granted by the master alone"
        );
        drill.nodes[1].resume();
        drill.nodes[0].wait_for_replicas(1).await;
    };
    drill.fault(May::Delay, cut_off).await;
    drill.end(secs(5)).await;
});
