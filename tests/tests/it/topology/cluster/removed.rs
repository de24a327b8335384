//! Nodes that were taken out of the cluster.

use super::world::{PROMPTLY, client};
use crate::prelude::*;

/// A node that was named in a redirection is kept for a while, also when it is dead and the cluster has forgotten it.
/// Each of many attempts to reach it is no news.
#[tokio::test]
async fn a_dead_node_that_was_forgotten_is_warned_of_once() {
    let cluster = RedisCluster::with_spares(1).await;
    let client = client(&cluster).await;
    let (name, spare) = ("{removed}", cluster.node(3));
    // Or it would follow the node that takes its last slot.
    spare.client().cmd(&["CONFIG", "SET", "cluster-allow-replica-migration", "no"]).await;
    client.mutex(name).lock().await.unwrap().release().await.unwrap();
    let slot = cluster.slot(name).await;
    let home = cluster.owner(slot).await;
    cluster.move_slot(slot, 3, &[], async {}).await;
    client.mutex(name).lock().await.unwrap().release().await.unwrap();
    cluster.move_slot(slot, home, &[], async {}).await;
    client.mutex(name).lock().await.unwrap().release().await.unwrap();

    let log = Log::start_at(tracing::Level::DEBUG);
    let id: String = spare.client().get(&["CLUSTER", "MYID"]).await;
    spare.kill();
    for at in 0..3 {
        cluster.node(at).client().cmd(&["CLUSTER", "FORGET", &id]).await;
    }
    let attempts = || log.lines_with("cannot connect to the lock store yet");
    eventually(4 * PROMPTLY, "it tries", async || attempts().len() > 20).await;
    let lines = log.lines_with("WARN");
    assert!(lines.len() <= 1, "{} of {} attempts: {lines:#?}", lines.len(), attempts().len());
    // Its locks are elsewhere by now.
    let guard = tokio::time::timeout(secs(1), client.mutex(name).lock()).await;
    guard.expect("it asks the node that was removed").unwrap().release().await.unwrap();
}
