//! Lost replies, late grants, short memory, dead and paused waiters (S-8, S-19, S-21, S-22, S-33).

use crate::kinds::fair::world::*;

/// S-8, S-26: a grant that comes too late is given back; the waiter goes on as another owner and
/// listens to that one's channel.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_late_grant_it_hears_of_its_new_place() {
    let world = World::start().await;
    let proxy = Proxy::start(world.server.port()).await;
    let builder = lock_runtime::LockClient::builder().waiter_lease(NEVER).poll_cap(NEVER);
    let client = builder.connect(&proxy.url()).await.unwrap();
    let holder = world.client_that_only_listens().await;
    let short = fixed(ms(200));
    let guard = holder.fair_mutex("l").lock().await.unwrap();
    let waiting = lock_tests::spawn(client.fair_mutex("l").with(short).lock());
    let mut owner = String::new();
    soon!("it is in line", {
        owner = world.queue("l").await.pop().unwrap_or_default();
        !owner.is_empty()
    });
    world.server.wait_for_subscribers(&channel("l", &owner), 1).await;
    let (next, _) = world.waiter(&holder, "l").await;
    proxy.delay_replies(ms(400));
    guard.release().await.unwrap();
    // Its hold ends, or is given back, before it knows of it; the next one has its turn.
    let guard = granted(next).await;
    proxy.pass();
    let mut anew = String::new();
    soon!("it is in line anew", {
        anew = world.queue("l").await.pop().unwrap_or_default();
        !anew.is_empty() && anew != owner
    });
    world.server.wait_for_subscribers(&channel("l", &anew), 1).await;
    assert_eq!(world.queue("l").await, [anew]);
    guard.release().await.unwrap();
    drop(granted(waiting).await);
    world.nothing_left("l").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_new_head_is_told() {
    let world = World::start().await;
    let (client, other) = (world.client_that_only_listens().await, world.client().await);
    let ends = world.now().await + 3_600_000.0;
    world.has_in_line("h", &[("dead:1", ends), ("dead:2", ends)]).await;
    let (waiting, _) = world.waiter(&client, "h").await;
    let ended = ["ZADD", "redisson_lock_timeout:{h}", "1", "dead:1", "1", "dead:2"];
    world.server.client().cmd(&ended).await;
    assert!(other.fair_mutex("h").try_lock().await.unwrap().is_none(), "overtook");
    granted(waiting).await.release().await.unwrap();
    world.nothing_left("h").await;
}

/// S-26: a release that the head does not hear tells the first who does, so that a waiter knows
/// when the head counts as dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_deaf_head_the_first_who_hears_watches() {
    let world = World::start().await;
    let client = world.client_that_only_listens().await;
    let guard = client.fair_mutex("f").lock().await.unwrap();
    let ends = world.now().await + 1500.0;
    world.has_in_line("f", &[("deaf:1", ends)]).await;
    let (waiting, _) = world.waiter(&client, "f").await;
    guard.release().await.unwrap();
    // The waiter last heard of the holder's lease, thirty seconds.
    let guard = granted(waiting).await;
    assert!(world.now().await >= ends, "the head was overtaken");
    guard.release().await.unwrap();
    world.nothing_left("f").await;
}
