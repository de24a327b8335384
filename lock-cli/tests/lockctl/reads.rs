//! `ls`, `show`, `clients` and `deadlocks`: on one server, behind sentinels, and in a cluster.

use std::time::Duration;

use lock_runtime::{LockClient, LockOptions, MultiLock};
use lock_tests::redis_server::Sentinels;
use lock_tests::{RedisCluster, RedisServer};

use crate::world::{Ran, World, lockctl, waits};

/// An owner as Redisson names its own.
const JAVA: &str = "3b241101-e2bb-4255-8caf-4136c566a962:57";

/// The words of the line that begins with a word.
fn line<'a>(ran: &'a Ran, first: &str) -> Vec<&'a str> {
    let line = ran.stdout.lines().find(|line| line.split_whitespace().next() == Some(first));
    line.unwrap_or_else(|| panic!("no {first} in {ran:?}")).split_whitespace().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_are_listed_with_their_holders() {
    let world = World::start().await;
    let _held = world.billing.mutex("order:1").lock().await.unwrap();
    let waiting = tokio::spawn(world.orders.mutex("order:1").lock());
    waits(&world.orders, 1).await;
    let _fair = world.orders.fair_mutex("job:1").lock().await.unwrap();
    world.server.client().cmd(&["HSET", "order:java", JAVA, "2"]).await;

    let all = world.run(&["ls"]).await;
    assert_eq!((all.code, &*all.stderr), (0, ""), "{all:?}");
    assert_eq!(all.stdout.lines().count(), 4, "{all:?}");
    let process = World::process("billing");
    let words = line(&all, "order:1");
    assert_eq!((words[1], words[2], words.last()), ("mutex", &*process, Some(&"1")), "{words:?}");
    assert!(all.stdout.contains("Redisson client 3b241101…, thread 57"), "{all:?}");
    assert!(!all.stdout.contains(JAVA), "the whole owner would release it");
    assert_eq!(line(&all, "job:1")[1..3], ["fair", "mutex"]);

    let some = world.run(&["ls", "order:", "--held-longer", "0s"]).await;
    assert_eq!(some.stdout.lines().count(), 2, "the prefix and the time: {some:?}");
    let fair = world.run(&["ls", "--kind", "fair", "--json"]).await.json();
    assert_eq!(fair["locks"].as_array().unwrap().len(), 1);
    let lock = &fair["locks"][0];
    assert_eq!((&lock["key"], &lock["kind"]), (&"job:1".into(), &"fair".into()));
    assert_eq!(lock["holders"][0]["client"]["service"], "orders");
    assert!(lock["holders"][0]["held_for_ms"].as_u64().unwrap() < 10_000, "{lock}");
    let old = world.run(&["ls", "--held-longer", "1h"]).await;
    assert_eq!((old.code, old.stdout.lines().count()), (0, 1), "{old:?}");
    waiting.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_about_one_lock_is_shown() {
    let world = World::start().await;
    let held = world.billing.fair_mutex("job:1").lock().await.unwrap();
    let waiting = tokio::spawn(world.orders.fair_mutex("job:1").lock());
    waits(&world.orders, 1).await;
    let raw = world.server.client();
    raw.cmd(&["RPUSH", "redisson_lock_queue:{job:1}", JAVA]).await;
    raw.cmd(&["ZADD", "redisson_lock_timeout:{job:1}", "9000000000000", JAVA]).await;

    let shown = world.run(&["show", "job:1"]).await;
    assert_eq!(shown.code, 0, "{shown:?}");
    let token = held.token().get().to_string();
    assert_eq!(line(&shown, "fencing"), ["fencing", "token", &token]);
    assert!(shown.stdout.contains("reads.rs:"), "the sites: {shown:?}");
    let (billing, orders) = (World::process("billing"), World::process("orders"));
    assert_eq!(line(&shown, &billing)[1], "1", "entered once");
    assert_eq!(line(&shown, "1")[1], orders, "the queue is in order");
    assert_eq!(line(&shown, "2")[1..4], ["Redisson", "client", "3b241101…,"]);
    let json = world.run(&["show", "job:1", "--json"]).await.json();
    assert_eq!(json["last_token"], held.token().get());
    assert_eq!(json["lock"]["queue"].as_array().unwrap().len(), 2);

    waiting.abort();
    let free = world.run(&["show", "nothing"]).await;
    assert_eq!((free.code, &*free.stdout), (1, "nothing is free, and no client waits for it\n"));
    world.run(&["show", "a\nb"]).await.failed(2, "invalid lock key");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_are_listed() {
    let world = World::start().await;
    let _held = world.billing.mutex("order:1").lock().await.unwrap();
    let clients = world.run(&["clients"]).await;
    let words = line(&clients, "billing");
    assert_eq!(words[2], std::process::id().to_string());
    assert_eq!(words[3], env!("CARGO_PKG_VERSION"));
    let json = world.run(&["clients", "--json"]).await.json();
    let counts =
        |at: usize| (json["clients"][at]["holds"].clone(), json["clients"][at]["waits"].clone());
    assert_eq!((counts(0), counts(1)), ((1.into(), 0.into()), (0.into(), 0.into())), "{json}");
}

/// A lock of two clients has an id of its own in the store, also while it is kept after its release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kept_lock_of_two_clients_is_accounted_for() {
    let world = World::start().await;
    let members = [world.billing.mutex("a").into(), world.orders.mutex("b").into()];
    let kept = LockOptions::new().at_least(Duration::from_secs(25));
    MultiLock::of(members).with(kept).lock().await.unwrap().release().await.unwrap();
    let listed = world.run(&["ls", "--json"]).await.json();
    assert_eq!(listed["locks"].as_array().unwrap().len(), 2, "both are kept: {listed}");
    assert_eq!((&listed["unaccounted"], &listed["is_complete"]), (&0.into(), &true.into()));
    let service = &listed["locks"][0]["holders"][0]["client"]["service"];
    assert!(service == "billing" || service == "orders", "{listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlocks_are_named() {
    let world = World::start().await;
    let none = world.run(&["deadlocks"]).await;
    assert_eq!((none.code, &*none.stdout), (0, "no deadlock\n"));
    let one = world.billing.mutex("a").lock().await.unwrap();
    let other = world.orders.mutex("b").lock().await.unwrap();
    let (b, a) = (world.billing.mutex("b"), world.orders.mutex("a"));
    let tasks = [
        tokio::spawn(async move { one.run(b.lock()).await.map(drop) }),
        tokio::spawn(async move { other.run(a.lock()).await.map(drop) }),
    ];
    waits(&world.billing, 1).await;
    waits(&world.orders, 1).await;
    let found = world.run(&["deadlocks"]).await;
    assert_eq!(found.code, 1, "{found:?}");
    for process in ["billing", "orders"] {
        let line = found.stdout.lines().find(|line| line.contains(&World::process(process)));
        assert!(line.is_some_and(|line| line.matches("reads.rs:").count() == 2), "{found:?}");
    }
    // However often it is asked: a client that has answered too much lately is asked again.
    for number in 0..8 {
        let found = world.run(&["deadlocks"]).await;
        assert_eq!(found.code, 1, "{number}: {found:?}");
    }
    tasks.each_ref().iter().for_each(|task| task.abort());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_clusters_are_asked_alike() {
    let master = RedisServer::start().await;
    let sentinels = Sentinels::builder("locks").start(&master, 0).await;
    let urls = sentinels.urls();
    let client = LockClient::builder().connect_sentinel("locks", &urls).await.unwrap();
    let _held = client.mutex("order:1").lock().await.unwrap();
    let sentinel = ["--sentinel", "locks", "--node", &urls[0], "--node", &urls[1]];

    let cluster = RedisCluster::start().await;
    let node = cluster.node(0).url();
    let client = LockClient::builder().connect_cluster([&node]).await.unwrap();
    let _held_too = client.mutex("order:1").lock().await.unwrap();
    for address in [&sentinel[..], &["--cluster", &node]] {
        for command in [&["ls"][..], &["show", "order:1"], &["clients"], &["deadlocks"]] {
            let ran = lockctl(&[address, command].concat()).await;
            assert_eq!((ran.code, &*ran.stderr), (0, ""), "{address:?} {command:?}: {ran:?}");
        }
        let listed = lockctl(&[address, &["ls"]].concat()).await;
        assert_eq!(line(&listed, "order:1")[1], "mutex");
        let released = lockctl(&[address, &["release", "order:1", "--yes"]].concat()).await;
        assert_eq!(released.code, 0, "{released:?}");
        assert_eq!(lockctl(&[address, &["show", "order:1"]].concat()).await.code, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_is_looked_at_by_itself() {
    let server = RedisServer::start().await;
    let builder = LockClient::builder().namespace("shop").service("billing");
    let client = builder.connect(&server.url()).await.unwrap();
    let _held = client.mutex("order:1").lock().await.unwrap();
    let url = server.url();
    let shop = lockctl(&["--url", &url, "--namespace", "shop", "ls", "order:"]).await;
    assert_eq!(line(&shop, "shop:order:1")[2], World::process("billing"));
    let shown = lockctl(&["--url", &url, "--namespace", "shop", "show", "order:1"]).await;
    assert_eq!(shown.code, 0, "{shown:?}");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.toml");
    std::fs::write(&file, format!("[lock]\nurl = '{url}'\nnamespace = 'shop'")).unwrap();
    let by_file = lockctl(&["--config", file.to_str().unwrap(), "show", "order:1"]).await;
    assert_eq!(by_file.code, 0, "{by_file:?}");
    let same = ["--config", file.to_str().unwrap(), "--namespace", "shop", "show", "order:1"];
    assert_eq!(lockctl(&same).await.code, 0);
    let other = ["--config", file.to_str().unwrap(), "--namespace", "store", "show", "order:1"];
    lockctl(&other)
        .await
        .failed(2, "has another namespace than store, which --namespace or LOCK_NAMESPACE gives");

    let file = folder.path().join("app.json");
    let text = format!(r#"{{ "lock": {{ "url": "{url}", "namespace": "shop" }} }}"#);
    std::fs::write(&file, text).unwrap();
    let by_json = lockctl(&["--config", file.to_str().unwrap(), "show", "order:1"]).await;
    assert_eq!(by_json.code, 0, "{by_json:?}");
}
