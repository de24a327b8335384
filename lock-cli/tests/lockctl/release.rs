//! `lockctl release`.

use lock_runtime::LockClient;
use lock_tests::eventually;

use crate::world::{SOON, World, begin, ended};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_released_by_force() {
    let world = World::start().await;
    let held = world.billing.mutex("order:1").lock().await.unwrap();
    let process = World::process("billing");

    let asked = world.run(&["release", "order:1"]).await;
    assert_eq!(asked.code, 1, "{asked:?}");
    assert!(asked.stdout.contains(&process) && asked.stdout.contains("--yes"), "{asked:?}");
    assert!(!held.is_lost(), "only asked");
    let other = world.run(&["release", "order:1", "--owner", "orders@", "--yes"]).await;
    other.failed(1, "orders@ does not hold order:1; it is held by billing@");
    assert!(world.server.client().exists("order:1").await);

    let freed = world.run(&["release", "order:1", "--owner", "billing@", "--yes"]).await;
    assert_eq!(freed.code, 0, "{freed:?}");
    assert!(freed.stdout.contains(&process) && freed.stdout.contains("release.rs:"), "{freed:?}");
    drop(world.orders.mutex("order:1").try_lock().await.unwrap().expect("it is free"));
    eventually(SOON, "the holder learns of it", async || held.is_lost()).await;
    world.run(&["release", "order:1", "--yes"]).await.failed(1, "order:1 is not held");
}

/// A release takes a lock from all its holders, so one of several is not enough to name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_has_to_hold_it_alone() {
    let world = World::start().await;
    let one = world.billing.rw_lock("prices").read().await.unwrap();
    let other = world.orders.rw_lock("prices").read().await.unwrap();
    let refused = world.run(&["release", "prices", "--owner", "billing@", "--yes"]).await;
    refused.failed(1, "billing@ does not hold prices alone");
    assert!(refused.stderr.contains(&World::process("orders")), "{refused:?}");
    let id = world.billing.id().to_string();
    world.run(&["release", "prices", "--owner", &id[..4], "--yes"]).await.failed(1, "alone");
    other.release().await.unwrap();
    let freed = world.run(&["release", "prices", "--owner", &id[..8], "--yes"]).await;
    assert_eq!(freed.code, 0, "{freed:?}");
    eventually(SOON, "the holder learns of it", async || one.is_lost()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_lock_is_left_alone() {
    let world = World::start().await;
    let raw = world.server.client();
    raw.cmd(&["SET", "text", "words"]).await;
    raw.cmd(&["HSET", "user", "name", "Ada"]).await;
    raw.cmd(&["SET", "count", "3"]).await;
    for name in ["text", "user"] {
        world.run(&["release", name, "--yes"]).await.failed(1, "already holds something else");
    }
    world.run(&["release", "count", "--yes"]).await.failed(1, "is not held");
    assert_eq!(raw.get::<String>(&["GET", "text"]).await, "words");
    assert_eq!(raw.get::<String>(&["GET", "count"]).await, "3");
    assert!(raw.exists("user").await);
}

/// Of a client that does not answer only the beginning of its id is shown: that is enough to name it, as is the whole id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_of_a_holder_that_does_not_answer_is_released_by_its_id() {
    let world = World::start().await;
    let builder = LockClient::builder().survey(false).service("silent");
    let silent = builder.connect(&world.server.url()).await.unwrap();
    let id = silent.id().to_string();
    let beginning = &id[..8];
    for owner in
        [&id, beginning, &format!("{beginning}…"), &format!("client {beginning}"), "silent@"]
    {
        let held = silent.mutex("order:1").lock().await.unwrap();
        let other = format!("{beginning}-0000");
        world.run(&["release", "order:1", "--owner", &other, "--yes"]).await.failed(1, "not hold");
        let freed = world.run(&["release", "order:1", "--owner", owner, "--yes"]).await;
        assert_eq!(freed.code, 0, "{owner}: {freed:?}");
        assert!(!world.server.client().exists("order:1").await, "{owner}");
        drop(held);
    }
    // Redisson's, with the number of a thread.
    const JAVA: &str = "3b241101-e2bb-4255-8caf-4136c566a962:57";
    for owner in [JAVA, "3b241101", "Redisson client 3b241101"] {
        world.server.client().cmd(&["HSET", "order:java", JAVA, "1"]).await;
        let freed = world.run(&["release", "order:java", "--owner", owner, "--yes"]).await;
        assert_eq!(freed.code, 0, "{owner}: {freed:?}");
        assert!(!world.server.client().exists("order:java").await, "{owner}");
    }
}

/// Redisson's permits do not say whose they are, so there is nothing to compare.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_without_an_id_cannot_be_named() {
    let world = World::start().await;
    let raw = world.server.client();
    raw.cmd(&["SET", "pool", "0"]).await;
    let bytes =
        "\u{1}\u{2}\u{3}\u{4}\u{5}\u{6}\u{7}\u{8}\u{e}\u{f}\u{10}\u{11}\u{12}\u{13}\u{14}\u{15}";
    raw.cmd(&["ZADD", "{pool}:timeout", "9000000000000", bytes]).await;
    let refused = world.run(&["release", "pool", "--owner", "Redisson", "--yes"]).await;
    refused.failed(1, "leave out --owner");
    let freed = world.run(&["release", "pool", "--yes"]).await;
    assert_eq!(freed.code, 0, "{freed:?}");
}

/// The answer to the first look is not forgotten when a later one fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_lock_is_not_called_free_if_the_store_fails_meanwhile() {
    let world = World::start().await;
    let raw = world.server.client();
    raw.cmd(&["HSET", "order:java", "3b241101-e2bb-4255-8caf-4136c566a962:57", "1"]).await;
    let user = ["ACL", "SETUSER", "ops", "reset", "on", ">secret", "~*", "&*", "+@all"];
    for command in ["show", "release"] {
        raw.cmd(&user).await;
        // It hears requests and answers none, so the survey goes on for as long as it may.
        let requests = world.server.subscribe_log("lock_runtime:survey").await;
        let url = format!("redis://ops:secret@127.0.0.1:{}", world.server.port());
        let looking = begin(&["--url", &url, "--within", "3s", command, "order:java"]);
        requests.wait_for(1, SOON).await;
        raw.cmd(&["ACL", "SETUSER", "ops", "resetkeys"]).await;
        let ran = ended(looking).await;
        ran.failed(3, "order:java is held, and");
        assert!(ran.stderr.contains("access to a key"), "{ran:?}");
    }
}
