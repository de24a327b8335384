//! One channel for all waiters of a process; requests and round trips of a hand-over (S-15, S-26).

use crate::kinds::fair::world::*;

/// S-26: only the first waiter of a process subscribes and asks twice, also for the next hundred.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_first_waiter_of_a_process_subscribes() {
    let world = World::start().await;
    let client = world.client_that_only_listens().await;
    let holder = client.fair_mutex("c").lock().await.unwrap();
    let (first, owner) = world.waiter(&client, "c").await;
    world.server.reset_stats().await;
    let others: Vec<_> = (0..100).map(|_| tokio::spawn(client.fair_mutex("c").lock())).collect();
    soon!("all are in line", world.queue("c").await.len() == 101);
    let calls = world.server.command_calls().await;
    assert_eq!((calls.get("subscribe"), calls.get("zadd")), (None, Some(&100)), "{calls:?}");
    assert_eq!(world.server.pubsub_numsub(&channel("c", &owner)).await, 1);
    assert_eq!(world.server.pubsub_numsub(&own_channel("c", &owner)).await, 0);
    holder.release().await.unwrap();
    for waiting in [first].into_iter().chain(others) {
        granted(waiting).await.release().await.unwrap();
    }
    let calls = world.server.command_calls().await;
    assert_eq!(calls.get("subscribe"), None, "{calls:?}");
    world.nothing_left("c").await;
}

/// S-26: the next waiter of the process asks right behind the release, and not only when it has been told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_inside_a_process_takes_one_round_trip() {
    let world = World::start().await;
    let proxy = Proxy::start(world.server.port()).await;
    let builder = LockClient::builder().waiter_lease(NEVER).poll_cap(NEVER);
    let client = builder.connect(&proxy.url()).await.unwrap();
    let holder = client.fair_mutex("r").lock().await.unwrap();
    let (waiting, _) = world.waiter(&client, "r").await;
    let trip = secs(1);
    proxy.delay_replies(trip);
    let start = Instant::now();
    let (released, guard) = tokio::join!(holder.release(), granted(waiting));
    released.unwrap();
    let took = start.elapsed();
    assert!(took >= trip && took < trip * 9 / 5, "{took:?}");
    proxy.pass();
    guard.release().await.unwrap();
    world.nothing_left("r").await;
}

/// S-26: behind waiters of another process a hint is wrong; the lock still goes round in order, by notices alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hints_that_are_wrong_change_no_order() {
    let world = World::start().await;
    let clients = [world.client_that_only_listens().await, world.client_that_only_listens().await];
    let holder = clients[0].fair_mutex("h").lock().await.unwrap();
    let mut line = Vec::new();
    // Mostly the other process is next, and now and then this one.
    for number in 0..24 {
        let client = &clients[usize::from(number % 2 == 0 || number % 7 == 0)];
        line.push(world.waiter(client, "h").await.0);
    }
    holder.release().await.unwrap();
    let mut token = FencingToken::new(0);
    for waiting in line {
        let guard = granted(waiting).await;
        assert!(guard.token() > token, "out of turn");
        token = guard.token();
        guard.release().await.unwrap();
    }
    world.nothing_left("h").await;
}
