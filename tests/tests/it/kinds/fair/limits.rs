//! How many may wait (S-18).

use crate::kinds::fair::world::*;

fn too_many(outcome: &Result<LockGuard, LockError>) -> bool {
    matches!(outcome, Err(LockError::Busy { reason: BusyReason::TooManyWaiters, .. }))
}

/// A waiter in place of one that is leaving: its room is free once the store has answered.
async fn successor(world: &World, client: &LockClient, name: &str) -> Waiting {
    let before = world.queue(name).await.len();
    let mut waiting = lock_tests::spawn(client.fair_mutex(name).lock());
    soon!("there is room", {
        if waiting.is_finished() {
            assert!(too_many(&(&mut waiting).await.unwrap()));
            waiting = lock_tests::spawn(client.fair_mutex(name).lock());
        }
        world.queue(name).await.len() > before
    });
    waiting
}

/// S-18: for each key and client: one contends, so many wait behind it; a place that becomes free
/// can be taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_of_a_key_are_bounded() {
    let world = World::start().await;
    let (holder, client) = (world.client().await, world.client().await);
    let guard = holder.fair_mutex("k").lock().await.unwrap();
    let two = LockOptions::new().max_waiters(2);
    let mutex = || client.fair_mutex("k").with(two.clone());
    let mut waiting = Vec::new();
    for number in 1..=3 {
        waiting.push(lock_tests::spawn(mutex().lock()));
        soon!("in line", world.queue("k").await.len() == number);
    }
    assert!(too_many(&mutex().lock().await));
    assert_eq!(world.queue("k").await.len(), 3, "the refused one is in line");
    // Another key and another client have lines of their own.
    client.fair_mutex("other").with(two.clone()).lock().await.unwrap().release().await.unwrap();
    let (elsewhere, _) = world.waiter(&holder, "k").await;
    waiting.remove(0).abort();
    soon!("it has left", world.queue("k").await.len() == 3);
    let last = successor(&world, &client, "k").await;
    assert!(too_many(&mutex().lock().await));
    guard.release().await.unwrap();
    for waiting in waiting.into_iter().chain([elsewhere, last]) {
        granted(waiting).await.release().await.unwrap();
    }
    world.nothing_left("k").await;
}

/// S-18: over all keys of a client. Whoever is alone at a key contends and does not wait in a line,
/// as with the other kinds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_of_a_client_are_bounded() {
    let world = World::start().await;
    let builder = LockClient::builder().max_waiters(1);
    let client = builder.connect(&world.server.url()).await.unwrap();
    let one = client.fair_mutex("1").lock().await.unwrap();
    let two = client.fair_mutex("2").lock().await.unwrap();
    assert!(client.fair_mutex("1").try_lock().await.unwrap().is_none());
    let (first, _) = world.waiter(&client, "1").await;
    let (second, _) = world.waiter(&client, "1").await;
    assert!(too_many(&client.fair_mutex("1").lock().await));
    // The line of the other key is full as well, but nobody of it waits yet.
    let (alone, _) = world.waiter(&client, "2").await;
    assert!(too_many(&client.fair_mutex("2").lock().await));
    second.abort();
    soon!("it has left", world.queue("1").await.len() == 1);
    let behind = successor(&world, &client, "2").await;
    for (guard, waiting) in [(one, first), (two, alone)] {
        guard.release().await.unwrap();
        granted(waiting).await.release().await.unwrap();
    }
    granted(behind).await.release().await.unwrap();
    // Where none may wait, a free lock is still had.
    let builder = LockClient::builder().max_waiters(0);
    let none = builder.connect(&world.server.url()).await.unwrap();
    let guard = none.fair_mutex("1").lock().await.unwrap();
    let (alone, _) = world.waiter(&none, "1").await;
    assert!(too_many(&none.fair_mutex("1").lock().await));
    guard.release().await.unwrap();
    granted(alone).await.release().await.unwrap();
}
