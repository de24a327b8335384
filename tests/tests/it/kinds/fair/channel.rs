//! One channel for all waiters of a process, and hand-overs inside it (S-15, S-26).

use crate::kinds::fair::world::*;

/// S-26: the lock goes round in order among the waiters of two processes, by notices alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_of_two_processes_take_turns_in_order() {
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
