//! Listeners while connections break, masters and slots move, and permissions are missing (S-35).

use lock_runtime::store::ClusterStore;

use super::world::{CHANNEL, Inbox, QUIET, acquire, key, until_delivered};
use crate::prelude::*;

/// A listener can come before the connection and outside of a runtime, and stays for later connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_outlives_connections() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let store = Arc::new(RedisStore::connect(&proxy.url()).await.unwrap());
    let sender = RedisStore::connect(&server.url()).await.unwrap();
    proxy.refuse();
    proxy.reset_all();
    soon!("it is away", store.ping(ms(100)).await.is_err());
    let without = Arc::clone(&store);
    let listen = std::thread::spawn(move || Inbox::of(&*without, CHANNEL));
    let mut inbox = listen.join().expect("it needs no runtime");
    assert!(store.listened(CHANNEL, ms(100)).await.is_err(), "there is no server");
    proxy.pass();
    server.wait_for_subscribers(CHANNEL, 1).await;
    until_delivered(&sender, &mut inbox).await;
    for _ in 0..3 {
        proxy.reset_all();
        until_delivered(&sender, &mut inbox).await;
    }
    // Without `listened`, on a connection that has been there for long.
    let mut other = Inbox::of(&*store, "lock_runtime:other");
    server.wait_for_subscribers("lock_runtime:other", 1).await;
    sender.publish("lock_runtime:other", b"here", SOON).await.unwrap();
    assert_eq!(other.next().await, b"here");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_follows_a_fail_over() {
    let world = crate::topology::sentinel::world::World::new(1).await;
    let connect = || RedisStore::connect_sentinel("locks", world.sentinels.urls());
    let (store, sender) = (connect().await.unwrap(), connect().await.unwrap());
    let mut inbox = Inbox::of(&store, CHANNEL);
    until_delivered(&sender, &mut inbox).await;
    world.master().kill();
    world.promoted().await.wait_for_subscribers(CHANNEL, 1).await;
    until_delivered(&sender, &mut inbox).await;
}

/// The listener moves with the slot of the channel, and receives no message twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_follows_its_slot() {
    let cluster = RedisCluster::start().await;
    let connect = || ClusterStore::connect([cluster.node(0).url()]);
    let (store, sender) = (connect().await.unwrap(), connect().await.unwrap());
    let mut inbox = Inbox::of(&store, CHANNEL);
    until_delivered(&sender, &mut inbox).await;
    let slot = cluster.slot(CHANNEL).await;
    for _ in 0..3 {
        let from = cluster.owner(slot).await;
        cluster.move_slot(slot, (from + 1) % 3, &[], async {}).await;
        until_delivered(&sender, &mut inbox).await;
        let received = sender.publish(CHANNEL, b"once", SOON).await.unwrap();
        assert_eq!((received, inbox.next().await), (1, b"once".to_vec()));
        assert_eq!(inbox.rest(), Vec::<Vec<u8>>::new());
    }
}

/// What a user reads who may not use the channel.
#[track_caller]
fn is_denied<T: std::fmt::Debug>(outcome: Result<T, StoreError>) {
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Denied);
    assert!(error.to_string().contains("grant the user its pattern"), "{error}");
}

/// The listener insists on nothing, and the log has one line.
async fn is_refused_once(node: &RedisServer, command: &str, log: &Log) {
    soon!("it is refused", node.rejected_calls(command).await > 0);
    // Longer than the link's task takes to look again.
    sleep(ms(2_500)).await;
    assert_eq!(node.rejected_calls(command).await, 1, "it insists");
    let lines = log.lines_with("refuses a subscription");
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.contains("DEBUG") && line.contains(CHANNEL), "{line}");
}

const RULES: [&str; 9] =
    ["ACL", "SETUSER", "locks", "on", ">pw", "~*", "+@all", "resetchannels", "&redisson*"];

/// Locks go on without the permission for the channel.
#[tokio::test]
async fn a_refused_channel_disturbs_nothing() {
    let server = RedisServer::start().await;
    server.client().cmd(&RULES).await;
    let log = Log::start_at(tracing::Level::DEBUG);
    let url = format!("redis://locks:pw@127.0.0.1:{}", server.port());
    let store = RedisStore::connect(&url).await.unwrap();
    let mut inbox = Inbox::of(&store, CHANNEL);
    is_refused_once(&server, "subscribe", &log).await;
    for _ in 0..2 {
        is_denied(store.listened(CHANNEL, SOON).await);
    }
    is_denied(store.publish(CHANNEL, b"no", SOON).await);

    // A lock on the same store: acquired, waited for, released, noticed.
    let target = Target::mutex(key("job"));
    let owner = acquire(&store, &target).await.expect("it is free");
    let mut waiter = store.subscribe(&target, SOON).await.unwrap();
    store.release(ReleaseRequest::new(target, owner, SOON)).await.unwrap();
    timeout(SOON, waiter.notified()).await.expect("it is notified");

    // A later connection does not repeat the line, and the permission helps without a new listener.
    server.client().cmd(&["ACL", "SETUSER", "locks", &format!("&{CHANNEL}")]).await;
    store.listened(CHANNEL, SOON).await.unwrap();
    store.publish(CHANNEL, b"yes", SOON).await.unwrap();
    assert_eq!(inbox.next().await, b"yes");
    assert_eq!(log.lines_with("refuses a subscription").len(), 1);
}

#[tokio::test]
async fn a_refused_channel_disturbs_no_cluster() {
    let cluster = RedisCluster::start().await;
    for at in 0..3 {
        cluster.node(at).client().cmd(&RULES).await;
    }
    let log = Log::start_at(tracing::Level::DEBUG);
    let url = format!("redis://locks:pw@127.0.0.1:{}", cluster.node(0).port());
    let store = ClusterStore::connect([url]).await.unwrap();
    let _inbox = Inbox::of(&store, CHANNEL);
    is_refused_once(cluster.owner_of(CHANNEL).await, "ssubscribe", &log).await;
    is_denied(store.listened(CHANNEL, SOON).await);
    is_denied(store.publish(CHANNEL, b"no", SOON).await);
}

/// A message notifies no waiter, and a release is no message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_do_not_mix_with_releases() {
    let server = RedisServer::start().await;
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let mut inbox = Inbox::of(&store, CHANNEL);
    store.listened(CHANNEL, SOON).await.unwrap();
    let target = Target::mutex(key("job"));
    let mut waiter = store.subscribe(&target, SOON).await.unwrap();
    store.publish(CHANNEL, b"0", SOON).await.unwrap();
    assert_eq!(inbox.next().await, b"0");
    assert!(timeout(QUIET, waiter.notified()).await.is_err(), "no release");
    server.client().cmd(&["PUBLISH", "redisson_lock__channel:{job}", "0"]).await;
    timeout(SOON, waiter.notified()).await.expect("a release");
    assert_eq!(inbox.rest(), Vec::<Vec<u8>>::new());
}
