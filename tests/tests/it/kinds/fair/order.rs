//! First come, first served; what a holder and its line look like in the store.

use crate::kinds::fair::world::*;

/// S-26: a place is a member of Redisson's list, its end the server's time plus the waiter lease,
/// put off at a third; list and set end by themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_is_refreshed() {
    let world = World::start().await;
    let lease = ms(1500);
    let client = world.client_with_places(lease).await;
    let holder = client.fair_mutex("p").lock().await.unwrap();
    let (waiting, owner) = world.waiter(&client, "p").await;
    let first = world.score("p", &owner).await.unwrap();
    let left = first - world.now().await;
    assert!((1000.0..=1500.0).contains(&left), "{left}");
    for key in ["redisson_lock_queue:{p}", "redisson_lock_timeout:{p}"] {
        let pttl: u64 = world.server.client().get(&["PTTL", key]).await;
        assert!((86_390_000..=86_400_000).contains(&pttl), "{key}: {pttl}");
    }
    world.server.reset_stats().await;
    let start = Instant::now();
    soon!("it outlived its first lease", world.now().await > first + 200.0);
    assert!(world.score("p", &owner).await.unwrap() > world.now().await, "not refreshed");
    assert_eq!(world.queue("p").await, [owner]);
    // Every third, and none beyond that.
    let most = start.elapsed().as_millis() / (lease.as_millis() / 3) + 2;
    let asked = u128::from(world.server.command_calls().await["evalsha"]);
    assert!(asked <= most, "{asked} requests");
    holder.release().await.unwrap();
    granted(waiting).await.release().await.unwrap();
    world.nothing_left("p").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_head_is_told() {
    let world = World::start().await;
    let clients = [world.client_that_only_listens().await, world.client_that_only_listens().await];
    let holder = clients[0].fair_mutex("n").lock().await.unwrap();
    let (first, _) = world.waiter(&clients[0], "n").await;
    let (second, owner) = world.waiter(&clients[1], "n").await;
    let heard = world.server.subscribe_log(&channel("n", &owner)).await;
    holder.release().await.unwrap();
    let guard = granted(first).await;
    assert_eq!(heard.payloads(), [""; 0]);
    guard.release().await.unwrap();
    granted(second).await.release().await.unwrap();
    world.server.client().cmd(&["PUBLISH", &channel("n", &owner), "end"]).await;
    soon!("all was heard", heard.payloads().last().is_some_and(|last| last == "end"));
    let (_, number) = owner.split_once(':').unwrap();
    assert_eq!(heard.payloads(), [number, "end"]);
}

/// Asking without waiting respects the line and leaves nothing in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trying_goes_behind_the_line_and_not_into_it() {
    let world = World::start().await;
    let client = world.client().await;
    let guard = client.fair_mutex("t").lock().await.unwrap();
    assert!(client.fair_mutex("t").try_lock().await.unwrap().is_none(), "held");
    assert_eq!(world.asked().await, 0, "asked for a place");
    guard.release().await.unwrap();
    // Free, but a waiter was told and has not come yet.
    world.has_in_line("t", &[("other:1", world.now().await + 400.0)]).await;
    assert!(client.fair_mutex("t").try_lock().await.unwrap().is_none(), "overtook");
    assert_eq!(world.queue("t").await, ["other:1"]);
    soon!("the place has ended", client.fair_mutex("t").try_lock().await.unwrap().is_some());
    world.nothing_left("t").await;
}
