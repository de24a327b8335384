//! Fault 58: two of the three masters of a cluster are killed, so that the third refuses all requests (CLUSTERDOWN); they come
//! back without their data.
//!
//! - Promised: an acquire says what the cluster says, when its wait is over; tokens grow all the same; every lock within 5 s of
//!   the moment in which the cluster is whole again.
//! - Seen: 0.3 to 1.5 s.

use crate::prelude::*;

drill!(every_lock_recovers, Drill::in_a_cluster(), May::Delay, secs(5), async |drill| {
    let tag = drill.cluster.names_at(0, 1).await.remove(0);
    drill.loses(async { [1, 2].map(|node| drill.cluster.node(node).kill()) }).await;
    for kind in EXCLUSIVE {
        let name = format!("{{{tag}}}{kind}");
        let refused = async || {
            let acquired = take(&drill.near.client, kind, &name, waits(ms(200))).await;
            acquired.is_err_and(|error| {
                let (kind, text) = kind_and_text(&error);
                kind == StoreErrorKind::NotReady && text.contains("CLUSTERDOWN")
            })
        };
        eventually(SOON, "the last master refuses", refused).await;
    }
    drill.cluster.node(1).restart().await;
    drill.cluster.node(2).restart().await;
    drill.cluster.wait_until_whole().await;
});
