//! Fault 58: two of the three masters of a cluster are killed, so that the third refuses all requests (CLUSTERDOWN); they come
//! back without their data.
//!
//! - Promised: an acquire says what the cluster says, when its wait is over; tokens grow all the same; every lock within 5 s of
//!   the moment in which the cluster is whole again.
//! - Seen: 0.3 to 1.5 s.

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lock_recovers() {
    let mut drill = Drill::in_a_cluster().await;
    let tag = name_of(&drill.cluster, 0).await;
    let down = async |drill: &mut Drill<Slots>| {
        drill.loses(async { [1, 2].map(|node| drill.cluster.node(node).kill()) }).await;
        for kind in EXCLUSIVE {
            let name = format!("{{{tag}}}{kind}");
            let refused = async || {
                let error = match take(&drill.near.client, kind, &name, waits(ms(200))).await {
                    Ok(_) => return false,
                    Err(error) => error,
                };
                let (kind, text) = kind_and_text(&error);
                kind == StoreErrorKind::NotReady && text.contains("CLUSTERDOWN")
            };
            eventually(SOON, "the last master refuses", refused).await;
        }
        drill.cluster.node(1).restart().await;
        drill.cluster.node(2).restart().await;
        drill.cluster.wait_until_whole().await;
    };
    drill.fault(May::Delay, down).await;
    drill.end(secs(5)).await;
}

/// A name whose slot this node has.
async fn name_of(cluster: &RedisCluster, node: usize) -> String {
    for number in 0.. {
        let name = format!("n{number}");
        if cluster.owner(cluster.slot(&name).await).await == node {
            return name;
        }
    }
    unreachable!("each node has a third of the slots")
}
