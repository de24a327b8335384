//! Dropping any future at any await point leaves nothing behind (S-17, S-20, S-21).

use crate::contract::world::*;

/// S-21: nobody else has the lock, so the drops come before, during and after the grant.
pub(crate) async fn an_acquire_dropped_anywhere_leaves_nothing(world: &World) {
    let client = world.client().await;
    let other = world.client().await;
    let mut under_way = 0;
    // Where the test's own thread is held up, the answer may come within the first poll.
    for _ in 0..20 {
        let (polls, guard) = drop_at_every_await(
            || client.mutex("a").lock(),
            async |polls| {
                under_way += usize::from(polls > 0);
                world.free_soon("a").await;
                // Not only free in the store: another process can have it at once.
                other.mutex("a").lock().await.unwrap().release().await.unwrap();
            },
        )
        .await;
        assert!(polls >= 1);
        guard.unwrap().release().await.unwrap();
        if under_way >= world.awaits_of_an_acquire() {
            return;
        }
    }
    panic!("{under_way} drops while it was under way");
}

/// S-17, S-21: another task has it, so the drops come while trying, subscribing and waiting.
pub(crate) async fn a_waiting_acquire_dropped_anywhere_leaves_nothing(world: &World) {
    let (holder, client) = (world.client().await, world.client().await);
    let (mut dropped_between, mut dropped_waiting) = (0, 0);
    for polls in 1..12 {
        let guard = holder.mutex("w").lock().await.unwrap();
        let acquire = client.mutex("w").lock();
        let dropped = tokio::time::timeout(ms(60), poll_then_drop(acquire, polls)).await;
        match dropped {
            Ok(Polled::Completed(_)) => panic!("took a lock that was held"),
            Ok(Polled::Dropped) => dropped_between += 1,
            Err(_) => dropped_waiting += 1,
        }
        guard.release().await.unwrap();
        world.free_soon("w").await;
        // The line of the client that gave up is free as well.
        client.mutex("w").lock().await.unwrap().release().await.unwrap();
    }
    assert!(dropped_between >= 1, "no drop came while it asked or subscribed");
    assert!(dropped_waiting >= 1, "no drop came while it waited for the holder");
}

/// S-20.
pub(crate) async fn a_release_dropped_anywhere_is_finished(world: &World) {
    let client = world.client().await;
    for polls in 0..12 {
        let guard = client.mutex("r").lock().await.unwrap();
        let done = poll_then_drop(guard.release(), polls).await;
        world.free_soon("r").await;
        if let Polled::Completed(released) = done {
            released.unwrap();
            assert!(polls >= 1);
            return;
        }
    }
    panic!("the release did not complete within 12 polls");
}

/// Dropping a run drops the body and nothing else.
pub(crate) async fn a_run_dropped_anywhere_keeps_the_guard(world: &World) {
    let client = world.client().await;
    let guard = client.mutex("u").lock().await.unwrap();
    let body = || {
        guard.run(async {
            for _ in 0..3 {
                tokio::task::yield_now().await;
                client.mutex("u").lock().await.unwrap().release().await.unwrap();
            }
        })
    };
    let check = async |_| {
        assert!(!guard.is_lost());
        assert_eq!(world.holders("u").await.len(), 1);
    };
    drop_at_every_await(body, check).await.1.unwrap();
    guard.release().await.unwrap();
    world.free_soon("u").await;
}
