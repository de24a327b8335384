//! One channel for all waiters of a process, and hand-overs inside it (S-15, S-26).

use crate::kinds::fair::world::*;

/// S-26: only the first waiter of a process subscribes and asks twice, also for the next hundred.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_first_waiter_of_a_process_subscribes() {
    let world = World::start().await;
    let client = world.client_that_only_listens().await;
    let holder = client.fair_mutex("c").lock().await.unwrap();
    let (first, owner) = world.waiter(&client, "c").await;
    // After a moment it also listens where Redisson would tell it, and asks once more.
    world.server.wait_for_subscribers(&own_channel("c", &owner), 1).await;
    soon!("it has asked since", world.asked().await == 3);
    world.server.reset_stats().await;
    let mut others = Vec::new();
    for _ in 0..100 {
        let mutex = client.fair_mutex("c");
        others.push(lock_tests::spawn(async move {
            mutex.lock().await.unwrap().release().await.unwrap();
        }));
    }
    soon!("all are in line", world.queue("c").await.len() == 101);
    let calls = world.server.command_calls().await;
    assert_eq!((calls.get("subscribe"), calls.get("zadd")), (None, Some(&100)), "{calls:?}");
    assert_eq!(world.server.pubsub_numsub(&channel("c", &owner)).await, 1);
    holder.release().await.unwrap();
    granted(first).await.release().await.unwrap();
    joined(others).await;
    let calls = world.server.command_calls().await;
    // A line that moves is quicker than the moment after which its first listens, unless the machine is busy.
    assert!(calls.get("subscribe").is_none_or(|calls| *calls < 20), "{calls:?}");
    world.nothing_left("c").await;
}

/// S-26: the next waiter of the process asks right behind the release, without being told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_waiter_of_the_process_need_not_be_told() {
    let world = World::start().await;
    let client = world.client_that_only_listens().await;
    let mut holder = client.fair_mutex("t").lock().await.unwrap();
    let (mut line, mut owner) = (Vec::new(), String::new());
    for _ in 0..10 {
        let (waiting, last) = world.waiter(&client, "t").await;
        line.push(waiting);
        owner = last;
    }
    let heard = world.server.subscribe_log(&channel("t", &owner)).await;
    for waiting in line {
        let (released, next) = tokio::join!(holder.release(), granted(waiting));
        released.unwrap();
        holder = next;
    }
    holder.release().await.unwrap();
    world.server.client().cmd(&["PUBLISH", &channel("t", &owner), "end"]).await;
    soon!("all was heard", heard.payloads().last().is_some_and(|last| last == "end"));
    assert_eq!(heard.payloads(), ["end"]);
    world.nothing_left("t").await;
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
