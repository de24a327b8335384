//! Releases by force of what one client holds (S-12).

use crate::prelude::*;

/// Not from the client that acquired the lock since the operator looked at it; and from that one, by the beginning of its id,
/// as `lockctl release --owner` has it.
async fn only_from_the_clients_named(holder: &LockClient, operator: &LockClient, at: &str) {
    let id = |client: &LockClient| client.id().to_string();
    for (kind, is) in KINDS {
        let force = async |clients: &[String]| {
            operator.admin().force_release_from(kind, clients).await.unwrap()
        };
        assert!(!force(&[id(holder)]).await, "{at}, {kind}: not held");
        let guard = take_named(holder, kind, watched(secs(30))).await.unwrap();
        for others in [vec![id(operator)], vec![], vec![String::new()]] {
            assert!(!force(&others).await, "{at}, {kind}: taken from another client");
        }
        let found = operator.admin().inspect(kind).await.unwrap();
        assert_eq!((found.kind, found.holders.len()), (Some(is), 1), "{at}, {kind}");
        assert!(!guard.is_lost(), "{at}, {kind}");

        if is == HoldKind::Read {
            let other = operator.rw_lock(kind).read().await.unwrap();
            assert!(!force(&[id(holder)]).await, "{at}: a reader of another client");
            other.release().await.unwrap();
        }
        assert!(force(&[id(holder)[..8].to_owned()]).await, "{at}, {kind}: its holder");
        assert_eq!(operator.admin().inspect(kind).await.unwrap().kind, None, "{at}, {kind}");
        assert!(guard.release().await.is_err(), "{at}, {kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_from_one_client_compares_the_holder() {
    let server = RedisServer::start().await;
    let clients = async || LockClient::connect(&server.url()).await.unwrap();
    only_from_the_clients_named(&clients().await, &clients().await, "redis").await;

    let store = MemoryStore::new();
    let clients = || LockClient::builder().store(store.clone()).unwrap();
    only_from_the_clients_named(&clients(), &clients(), "memory").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_from_one_client_compares_the_holder_in_a_cluster() {
    let cluster = lock_tests::RedisCluster::start().await;
    let node = cluster.node(1).url();
    let clients = async || LockClient::builder().connect_cluster([&node]).await.unwrap();
    only_from_the_clients_named(&clients().await, &clients().await, "cluster").await;
}
