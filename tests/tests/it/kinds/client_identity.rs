//! Who a client is, from outside; whether it is ready; and how it starts without its server.

use crate::prelude::*;
use crate::support::quorum::{quorum_of, servers};

/// The names of the connections that this server has.
async fn names(server: &RedisServer) -> Vec<String> {
    let list: String = server.client().get(&["CLIENT", "LIST"]).await;
    let names =
        list.lines().filter_map(|line| line.split(' ').find_map(|it| it.strip_prefix("name=")));
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The id, and the process, whose service is the executable for want of a name.
fn name(client: &LockClient) -> String {
    let exe = std::env::current_exe().unwrap();
    let service = exe.file_stem().unwrap().to_str().unwrap();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("lock-runtime:{}:{service}@{host}:{}", client.id(), std::process::id())
}

async fn has_connection(server: &RedisServer, client: &LockClient) {
    let name = name(client);
    let what = format!("a connection is called {name}");
    soon!(&what, names(server).await.contains(&name));
}

/// The id is what the holder of a lock has in the store, and what its connections are called.
#[tokio::test]
async fn a_holder_is_found_by_its_id() {
    let (server, client, other) = world_of_two().await;
    assert_ne!(client.id(), other.id());
    has_connection(&server, &client).await;
    has_connection(&server, &other).await;
    let guard = client.mutex("a").lock().await.unwrap();
    let owners: Vec<String> = server.client().get(&["HKEYS", "a"]).await;
    assert_eq!(owners, [format!("{}:1", client.id())]);
    // Each connection, also the next one, and the one of locks that ask for replicas.
    // Each has a subscription, for surveys.
    assert!(server.client_kill(ClientType::PubSub).await > 0);
    has_connection(&server, &client).await;
    let one = waits(Wait::None).replicas(Replicas::new(1, ms(20)));
    client.mutex("b").with(one).lock().await.unwrap_err();
    let ours = async || names(&server).await.iter().filter(|its| **its == name(&client)).count();
    soon!("both connections have the name", ours().await == 2);
    drop(guard);
}

/// The service is the one of the builder; and what Redis does not allow in a name is replaced.
#[tokio::test]
async fn a_connection_has_the_name_of_its_service() {
    let server = RedisServer::start().await;
    let url = server.url();
    let service = |name: &str| LockClient::builder().service(name);
    for (client, expected) in [
        (service("billing").connect(&url).await, ":billing@"),
        (service("Büro 2\n").connect(&url).await, ":B_ro_2_@"),
        (service("later").connect_lazy(&url), ":later@"),
    ] {
        let start = format!("lock-runtime:{}{expected}", client.as_ref().unwrap().id());
        soon!(&start, names(&server).await.iter().any(|name| name.starts_with(&start)));
    }
}

#[tokio::test]
async fn behind_sentinels_in_a_cluster_and_of_a_quorum() {
    let master = RedisServer::start().await;
    let sentinels = Sentinels::builder("locks").start(&master, 0).await;
    let client = LockClient::builder().connect_sentinel("locks", sentinels.urls()).await.unwrap();
    has_connection(&master, &client).await;

    let cluster = RedisCluster::start().await;
    let client = LockClient::builder().connect_cluster(cluster.urls()).await.unwrap();
    for node in 0..3 {
        has_connection(cluster.node(node), &client).await;
    }
    client.ready().await.unwrap();
    cluster.node(2).pause();
    let error = client.ready().await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    cluster.node(2).resume();

    let servers = servers(3).await;
    let quorum = quorum_of(&servers).await;
    for server in &servers {
        has_connection(server, &quorum).await;
    }
    quorum.ready().await.unwrap();
    servers[0].kill();
    quorum.ready().await.unwrap();
    servers[1].kill();
    quorum.ready().await.unwrap_err();
}

#[tokio::test]
async fn the_name_needs_no_permission() {
    let server = RedisServer::start().await;
    let rule = ["ACL", "SETUSER", "locks", "on", ">secret", "~*", "&*", "+@all", "-client|setname"];
    server.client().cmd(&rule).await;
    let url = server.url().replace("redis://", "redis://locks:secret@");
    let client = LockClient::connect(&url).await.unwrap();
    client.mutex("a").lock().await.unwrap().release().await.unwrap();
    client.ready().await.unwrap();
    assert!(!names(&server).await.contains(&name(&client)));
}

#[tokio::test]
async fn ping_asks_the_server() {
    LockClient::in_memory().ready().await.unwrap();
    let (server, client) = world().await;
    client.ready().await.unwrap();
    server.pause();
    let error = client.ready().await.unwrap_err();
    assert!(matches!(error, LockError::Store(_)), "{error:?}");
    // Nothing is held, so nothing is in danger: health speaks of something else.
    assert!(client.health().is_healthy());
    server.resume();
    soon!("it is ready again", client.ready().await.is_ok());

    // A service that starts before its Redis: not ready, then ready, without being started anew.
    server.kill();
    LockClient::connect(&server.url()).await.unwrap_err();
    let lazy = LockClient::connect_lazy(&server.url()).unwrap();
    assert!(client.ready().await.is_err() && lazy.ready().await.is_err());
    let error = lazy.mutex("a").try_lock().await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    client.shutdown(Duration::ZERO).await;
    server.restart().await;
    soon!("it is ready", lazy.ready().await.is_ok());
    lazy.mutex("a").lock().await.unwrap().release().await.unwrap();
    has_connection(&server, &lazy).await;
    assert!(matches!(client.ready().await, Err(LockError::Closed)));
    // An address that cannot be used is wrong at once.
    assert!(matches!(LockClient::connect_lazy("http://one"), Err(LockError::Store(_))));
}

#[test]
fn a_lazy_client_is_made_without_a_runtime() {
    let client = LockClient::connect_lazy("redis://127.0.0.1:1").unwrap();
    lock_runtime::block_on(client.ready()).unwrap_err();
}
