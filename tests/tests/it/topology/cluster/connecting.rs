//! How a cluster is found, and what is refused.

use super::world::shared;
use crate::prelude::*;

#[tokio::test]
async fn one_node_that_answers_is_enough() {
    let cluster = shared().await;
    let (dead, alive) = ("redis://127.0.0.1:1".to_owned(), cluster.node(2).url());
    let by_code = LockClient::builder().connect_cluster([&dead, &alive]).await.unwrap();
    let text = format!("[lock]\ncluster = ['{dead}', '{alive}']\nnamespace = 'shop'");
    let config = LockConfig::from_toml(&text).unwrap();
    let by_file = LockClient::from_config(config).await.unwrap();
    for n in 0..16 {
        let guard = by_file.mutex(format!("found:{n}")).lock().await.unwrap();
        let name = format!("shop:found:{n}");
        assert!(cluster.owner_of(&name).await.client().exists(&name).await, "{name}");
        assert!(by_code.mutex(&name).try_lock().await.unwrap().is_none(), "{name}");
        guard.release().await.unwrap();
    }
}

/// Each in one sentence.
#[tokio::test]
async fn what_is_no_cluster_is_refused() {
    let single = RedisServer::start().await;
    let with_database = format!("{}/2", shared().await.node(0).url());
    let (socket, nobody) = ("unix:///tmp/none".to_owned(), "redis://127.0.0.1:1".to_owned());
    let other = "redis://127.0.0.1:2".to_owned();
    let nowhere = "none of the nodes of the cluster can be reached; check their addresses";
    for (nodes, expected) in [
        (vec![], "a cluster of no nodes; name one or more"),
        (vec![single.url()], "the server is not in cluster mode; connect to it as to one server"),
        (vec![with_database], "a cluster has no database but 0; take the number off the address"),
        (vec![socket], "the nodes of a cluster have hosts and ports, no sockets"),
        (vec![nobody, other], nowhere),
    ] {
        let is_away = expected == nowhere;
        let kind = if is_away { StoreErrorKind::Unavailable } else { StoreErrorKind::Config };
        let error = LockClient::builder().connect_cluster(&nodes).await.unwrap_err();
        let (found, sentence) = kind_and_sentence(error);
        assert_eq!((found, &*sentence), (kind, expected), "{nodes:?}");
    }
}

/// As one server, a node of a cluster is refused when it sends us elsewhere, in words that help.
#[tokio::test]
async fn a_node_is_not_one_server() {
    let cluster = shared().await;
    let client = LockClient::connect(&cluster.node(0).url()).await.unwrap();
    let mut seen = 0;
    for n in 0..16 {
        if let Err(error) = client.mutex(format!("alone:{n}")).try_lock().await {
            let LockError::Store(error) = error else { panic!("{error:?}") };
            assert!(error.to_string().contains("`connect_cluster`"), "{error}");
            seen += 1;
        }
    }
    assert!(seen > 0, "all sixteen names at one node");
}
