//! A cluster whose slots move.

use crate::prelude::*;

/// The epoch of the node of that id as each node knows it.
async fn epochs_of(cluster: &RedisCluster, id: &str) -> Vec<String> {
    let mut epochs = Vec::new();
    for at in 0..3 {
        let nodes: String = cluster.node(at).client().get(&["CLUSTER", "NODES"]).await;
        let line = nodes.lines().find(|line| line.starts_with(id)).unwrap();
        epochs.push(line.split(' ').nth(6).unwrap().to_owned());
    }
    epochs
}

/// A node that gets a slot enters a new epoch. A slot that moves on before the next node has heard of
/// that may be taken back, and what is in it is deleted: by Redis, and without any client of ours.
#[tokio::test]
async fn a_slot_moves_on_once_all_nodes_know_of_the_last_move() {
    let cluster = RedisCluster::start().await;
    let (name, target) = ("{heard}", cluster.node(2).client());
    let slot = cluster.slot(name).await;
    assert_eq!(cluster.owner(slot).await, 0, "not the node whose epoch is the first");
    let source = cluster.node(0).client();
    let id: String = source.get(&["CLUSTER", "MYID"]).await;
    source.cmd(&["SET", name, "kept"]).await;
    // As a move to it would do. The others hear of it by a later ping.
    let bumped: String = source.get(&["CLUSTER", "BUMPEPOCH"]).await;
    assert!(bumped.starts_with("BUMPED"), "{bumped}");
    let meanwhile = async {
        let epochs = epochs_of(&cluster, &id).await;
        assert!(epochs.iter().all(|epoch| *epoch == epochs[0]), "not all have heard: {epochs:?}");
    };
    cluster.move_slot(slot, 2, &[], meanwhile).await;
    assert_eq!(target.get::<String>(&["GET", name]).await, "kept");
}
