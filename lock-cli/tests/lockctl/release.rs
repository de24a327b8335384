//! `lockctl release`.

use lock_tests::eventually;

use crate::world::{SOON, World};

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
