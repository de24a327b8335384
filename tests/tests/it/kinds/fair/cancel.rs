//! Whoever gives up leaves the line at once and passes on what it was told (S-17, S-20, S-21).

use crate::kinds::fair::world::*;

/// S-17: told that its turn has come, or given the lock, and then dropped, it lets the next go on, which nothing but that can wake
/// here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_is_not_taken_goes_to_the_next() {
    let world = World::start().await;
    let client = world.client_that_only_listens().await;
    for waits_for in [Duration::ZERO, ms(1), ms(20)] {
        let guard = client.fair_mutex("p").lock().await.unwrap();
        let mut first = Box::pin(client.fair_mutex("p").lock());
        soon!("the first is in line", {
            assert!(poll!(&mut first).is_pending(), "took a lock that was held");
            !world.queue("p").await.is_empty()
        });
        let (waiting, _) = world.waiter(&client, "p").await;
        guard.release().await.unwrap();
        sleep(waits_for).await;
        drop(first);
        granted(waiting).await.release().await.unwrap();
        world.nothing_left("p").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_leaves_a_lock_that_ended_tells_the_next() {
    let world = World::start().await;
    let client = world.client_that_only_listens().await;
    let guard = client.fair_mutex("e").lock().await.unwrap();
    let (first, _) = world.waiter(&client, "e").await;
    let (waiting, _) = world.waiter(&client, "e").await;
    // The hold ends without a word.
    assert!(world.server.client().del("e").await);
    first.abort();
    granted(waiting).await.release().await.unwrap();
    drop(guard);
    world.nothing_left("e").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_leaves_the_line() {
    let world = World::start().await;
    let (holder, client) = (world.client().await, world.client_that_only_listens().await);
    let guard = holder.fair_mutex("s").lock().await.unwrap();
    let (one, _) = world.waiter(&client, "s").await;
    let (two, _) = world.waiter(&client, "s").await;
    let (behind, owner) = world.waiter(&holder, "s").await;
    let report = client.shutdown(PROMPTLY).await;
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(world.queue("s").await, [owner]);
    for outcome in joined([one, two]).await {
        assert!(matches!(outcome, Err(LockError::Closed)), "{outcome:?}");
    }
    assert!(matches!(client.fair_mutex("s").lock().await, Err(LockError::Closed)));
    guard.release().await.unwrap();
    granted(behind).await.release().await.unwrap();
    world.nothing_left("s").await;
}
