//! Finding the master: by name, from whoever knows it, or not at all.

use super::world::{FAILOVER, NAME, World, wait_for_client};
use crate::prelude::*;

async fn refused<U: AsRef<str>>(master: &str, nodes: impl IntoIterator<Item = U>) -> StoreError {
    match LockClient::builder().connect_sentinel(master, nodes).await {
        Err(LockError::Store(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// Takes `name`, looks for it on the server, and gives it back.
async fn takes(client: &LockClient, name: &str, server: &RedisServer) {
    let guard = client.mutex(name).lock().await.unwrap();
    assert!(server.client().exists(name).await, "{name} is not on the master");
    guard.release().await.unwrap();
}

test_with!(by_name_from_code_and_configuration, World::new(1), async |world| {
    let urls = world.sentinels.urls();
    let client = LockClient::builder().connect_sentinel(NAME, &urls).await.unwrap();
    takes(&client, "code", world.master()).await;
    let text = format!("[lock]\nsentinel = {{ master = '{NAME}', nodes = {urls:?} }}");
    let config = LockConfig::from_toml(&text).unwrap();
    let client = LockClient::from_config(config).await.unwrap();
    takes(&client, "configuration", world.master()).await;

    // Sentinels are there to find the master, not to lock.
    for node in 0..3 {
        world.sentinels.kill(node);
    }
    takes(&client, "alone", world.master()).await;
});

test_with!(one_connection_to_each_sentinel, World::new(0), async |world| {
    let clients = async |node: usize| -> usize {
        let list: String = world.sentinels.client(node).get(&["CLIENT", "LIST"]).await;
        list.lines().filter(|line| line.contains(" sub=2 ")).count()
    };
    let mut urls = Vec::new();
    for node in 0..3 {
        let user = "ACL SETUSER asker on >pw resetchannels &+switch-master &+promoted-slave -@all \
                    +sentinel|master +sentinel|get-master-addr-by-name +subscribe";
        let words: Vec<_> = user.split_whitespace().collect();
        world.sentinels.client(node).cmd(&words).await;
        urls.push(format!("redis://asker:pw@127.0.0.1:{}", world.sentinels.port(node)));
    }
    let client = LockClient::builder().connect_sentinel(NAME, urls).await.unwrap();
    let options = LockOptions::new().replicas(Replicas::new(1, ms(10))).wait(Wait::None);
    client.mutex("a").with(options).lock().await.unwrap_err();
    takes(&client, "a", world.master()).await;
    for node in 0..3 {
        soon!("it listens", clients(node).await == 1);
    }
    client.shutdown(FAILOVER).await;
    for node in 0..3 {
        soon!("it has left", clients(node).await == 0);
    }
});

test_with!(a_dead_first_sentinel_does_not_matter, World::new(1), async |world| {
    let urls = world.sentinels.urls();
    world.sentinels.pause(0);
    let timed = async || {
        let start = Instant::now();
        let client = LockClient::builder().connect_sentinel(NAME, &urls).await.unwrap();
        takes(&client, "some", world.master()).await;
        start.elapsed() < ms(800)
    };
    // A busy machine may need a second try. What it hangs for by itself is a second.
    eventually(FAILOVER, "one that hangs is not waited for", timed).await;
    world.sentinels.kill(0);
    eventually(FAILOVER, "one that is dead is not waited for", timed).await;
    world.sentinels.kill(1);
    let client = LockClient::builder().connect_sentinel(NAME, &urls).await.unwrap();
    takes(&client, "last", world.master()).await;
});

// S-33: what is wrong is said at once, by kind and in one sentence.
test_with!(what_is_wrong_is_said_at_once, World::new(1), async |world| {
    let urls = world.sentinels.urls();
    let none = ["redis://127.0.0.1:1", "redis://127.0.0.1:2"].map(str::to_owned);
    let none_reached =
        "no sentinel of the 2 asked can be reached; check their addresses and that they run";
    let database = vec![format!("{}/1", urls[0])];
    let wrong = ["", "redis://locks:6379", "http://locks", "a b", "redis://:x@"];
    let rows = [
        ("lokcs", urls.clone(), "the sentinels do not know a master \"lokcs\""),
        (NAME, none.to_vec(), none_reached),
        (NAME, vec![world.master().url()], "is no sentinel"),
        (NAME, Vec::new(), ""),
        (NAME, database, ""),
    ];
    for (master, nodes, says) in rows.into_iter().chain(wrong.map(|it| (it, urls.clone(), ""))) {
        let error = refused(master, &nodes).await;
        let is_away = says == none_reached;
        let kind = if is_away { StoreErrorKind::Unavailable } else { StoreErrorKind::Config };
        assert_eq!(error.kind(), kind, "{master}, {nodes:?}");
        assert!(error.to_string().contains(says), "{error}");
        let source = error.source().map(ToString::to_string).unwrap_or_default();
        assert!(!is_away || source.starts_with("the server at 127.0.0.1:"), "{source}");
    }

    world.master().pause();
    let start = Instant::now();
    let error = refused(NAME, &urls).await;
    assert!(error.kind().is_transient(), "{error:?}");
    assert!(start.elapsed() < patience(FAILOVER / 3), "{:?}", start.elapsed());
    world.master().resume();
});

/// Credentials in the nodes are the sentinels', those in the master are the servers'; and its database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_and_a_database() {
    let master = RedisServer::builder().password("server").arg("--masterauth", "server");
    let master = master.start().await;
    let replica = RedisServer::builder().replica_of(master.port()).password("server");
    let replica = replica.arg("--masterauth", "server").start().await;
    master.wait_for_replicas(1).await;
    let sentinels = Sentinels::builder(NAME).password("sent/nel").servers_password("server");
    let sentinels = sentinels.start(&master, 1).await;
    let urls = sentinels.urls();
    let client =
        LockClient::builder().connect_sentinel("redis://:server@locks/2", &urls).await.unwrap();
    let guard = client.mutex("two").lock().await.unwrap();
    assert!(master.client().keys().await.is_empty(), "in another database");
    guard.release().await.unwrap();

    let user = ["ACL", "SETUSER", "roleless", "on", ">pw", "~*", "&*", "+@all", "-role"];
    master.client().cmd(&user).await;
    let sentinel = format!("127.0.0.1:{}", sentinels.port(0));
    let (wrong, none) = (format!("redis://:s3cr3t@{sentinel}"), format!("redis://{sentinel}"));
    let wants = format!("asked can be used: the server at {sentinel} wants a password");
    for (master, nodes, says) in [
        ("redis://:s3cr3t@locks", &urls[..], "redis://user:password@locks"),
        ("locks", &urls, "redis://user:password@locks"),
        ("redis://roleless:pw@locks", &urls, "grant the user `+role`"),
        ("redis://:server@locks", &[wrong], ""),
        ("redis://:server@locks", &[none], &wants),
    ] {
        let error = refused(master, nodes).await;
        assert_eq!(error.kind(), StoreErrorKind::Denied, "{error:?}");
        assert!(error.to_string().contains(says), "{error}");
        assert!(!format!("{error:?}").contains("s3cr3t"), "{error:?}");
    }

    // Both are used again after a fail-over.
    sentinels.client(1).cmd(&["SENTINEL", "FAILOVER", NAME]).await;
    sentinels.wait_for_promotion(master.port(), &[0, 1, 2]).await;
    wait_for_client(&replica).await;
    client.mutex("two").lock().await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_configuration_counts() {
    let (world, behind) = tokio::join!(World::new(1), World::new(1));
    world.sentinels.client(0).cmd(&["SENTINEL", "FAILOVER", NAME]).await;
    let promoted = world.promoted().await;
    for node in 0..3 {
        let named = async || world.sentinels.master_port(node).await == promoted.port();
        eventually(FAILOVER, "all know", named).await;
    }
    let (old, new) = (behind.sentinels.urls(), world.sentinels.urls());
    for nodes in [vec![&old[0], &new[0]], vec![&old[0], &old[1], &new[0]]] {
        let client = LockClient::builder().connect_sentinel(NAME, nodes).await.unwrap();
        takes(&client, "newest", promoted).await;
    }
}

// A server that the sentinels still name and that says itself that it is a master no more.
test_with!(a_server_that_is_no_master_is_not_used, World::new(1), async |world| {
    for node in 0..3 {
        let client = world.sentinels.client(node);
        client.cmd(&["SENTINEL", "DEBUG", "info-period", "60000"]).await;
    }
    world.master().client().cmd(&["REPLICAOF", "127.0.0.1", "1"]).await;
    let error = refused(NAME, world.sentinels.urls()).await;
    assert_eq!(error.kind(), StoreErrorKind::NotReady, "{error:?}");
    world.master().client().cmd(&["REPLICAOF", "NO", "ONE"]).await;
    let client =
        LockClient::builder().connect_sentinel(NAME, world.sentinels.urls()).await.unwrap();
    takes(&client, "again", world.master()).await;
});

// Once connected: a caller reads that no sentinel answers, which is why nobody says where the master is.
test_with!(without_sentinels_the_caller_reads_so, World::new(0), async |world| {
    let builder = LockClient::builder().store_patience(secs(2));
    let client = builder.connect_sentinel(NAME, world.sentinels.urls()).await.unwrap();
    takes(&client, "before", world.master()).await;
    for node in 0..3 {
        world.sentinels.kill(node);
    }
    world.master().kill();
    let told = async || match client.mutex("after").try_lock().await {
        Err(LockError::Store(error)) => {
            error.kind() == StoreErrorKind::Unavailable && error.to_string().contains("no sentinel")
        }
        other => panic!("{other:?}"),
    };
    eventually(FAILOVER, "it says so", told).await;
});
