//! What a fail-over does to locks that are held, waited for, and asked for.

use super::world::{FAILOVER, NAME, World, builder, long, reach, wait_for_client};
use crate::prelude::*;

/// S-9, S-15: the master dies. Who holds a lock that the replica knows of keeps it, with its token, and
/// renews it; who waits is woken by its release on the new master.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_master_dies() {
    let world = World::new(1).await;
    let quiet = || builder().poll_cap(FAILOVER * 10);
    let (client, other) = (world.client().await, world.client_of(quiet()).await);
    // Longer than a fail-over takes on a busy machine.
    let lease = secs(21);
    let options = watched(lease);
    let guard = client.mutex("held").with(options).lock().await.unwrap();
    let token = guard.token();
    let waiter = lock_tests::spawn(other.mutex("held").with(long()).lock());
    world.master().wait_for_subscribers("redisson_lock__channel:{held}", 1).await;
    let replica = &world.servers[1];
    soon!("the replica knows", replica.client().exists("held").await);

    world.master().kill();
    let free = lock_tests::spawn(client.mutex("free").lock());
    world.promoted().await;
    let free = free.await.unwrap().unwrap();
    assert!(replica.client().exists("free").await, "not on the new master");
    free.release().await.unwrap();

    // It runs down over there, and is renewed.
    let left = async || match replica.client().pttl("held").await {
        Ttl::Left(left) if !waiter.is_finished() => left,
        other => panic!("{other:?}, {waiter:?}"),
    };
    let renewed = lease - lease / 6;
    soon!("it runs down", left().await < renewed);
    soon!("it is renewed", left().await > renewed);
    assert!(!guard.is_lost() && guard.token() == token);
    assert!(!waiter.is_finished(), "two have it");
    replica.wait_for_subscribers("redisson_lock__channel:{held}", 1).await;
    guard.release().await.unwrap();
    let next = timeout(secs(5), waiter).await.expect("not woken").unwrap().unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
}

/// S-12: the new master does not know of the lock. Its holder learns so from the next renewal, also if
/// another task has it by then, whose token is higher.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_was_not_replicated_is_lost_and_told() {
    let world = World::new(1).await;
    let (client, other) = (world.client().await, world.client().await);
    let replica = &world.servers[1];
    replica.pause();
    world.master().client_kill(ClientType::Replica).await;
    // A fail-over may take as long as it is waited for, and the loss is to be told by the store, not by the
    // deadline: with a lease of the same time it was told by either, on a busy machine.
    let lease = Lease::Watchdog(FAILOVER * 3 / 2);
    let outlives = leased(lease);
    let guard = client.mutex("lost").with(outlives).lock().await.unwrap();
    let token = guard.token();
    world.master().kill();
    replica.resume();
    world.promoted().await;
    let second = other.mutex("lost").with(long()).lock().await.unwrap();
    assert!(second.token() > token, "fencing does not tell them apart");
    timeout(FAILOVER, guard.lost()).await.expect("not told");
    match guard.release().await {
        Err(LockError::Lost { cause: LossCause::NotOwner, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert!(replica.client().exists("lost").await, "the loser took it from the next");
    second.release().await.unwrap();
}

/// S-31: a lock that a replica has acknowledged survives its master, and more can be taken after it: the
/// second connection follows to the new master, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledged_lock_survives() {
    let world = World::new(2).await;
    let client = world.client().await;
    let options = LockOptions::new().replicas(Replicas::new(1, secs(2))).wait(FAILOVER);
    let mut guards = Vec::new();
    for name in ["a", "b", "c"] {
        guards.push(client.mutex(name).with(options.clone()).lock().await.unwrap());
    }
    world.master().kill();
    let promoted = world.promoted().await;
    for name in ["a", "b", "c"] {
        assert!(promoted.client().exists(name).await, "{name} is gone");
    }
    let later = client.mutex("later").with(options).lock().await.unwrap();
    let other = world.servers[1..].iter().find(|server| server.port() != promoted.port()).unwrap();
    reach(other).await;
    assert!(promoted.client().exists("later").await && other.client().exists("later").await);
    release_all(guards.into_iter().chain([later])).await;
    assert!(!promoted.client().exists("a").await);
}

/// S-33: a planned fail-over, with the old master up, reaches nobody as an error. Eight tasks take locks
/// all the while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_failover_is_no_error() {
    let world = World::new(1).await;
    let client = world.client().await;
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let task = |number: usize| {
        let (client, stopped) = (client.clone(), stopped.clone());
        async move {
            let mut taken = 0;
            while !*stopped.borrow() {
                let guard = client.mutex(format!("busy:{}", number % 4)).lock().await.unwrap();
                match guard.release().await {
                    // What the old master granted last may be lost, and that is no error of the store.
                    Ok(()) | Err(LockError::Lost { .. }) => taken += 1,
                    Err(error) => panic!("{error:?}"),
                }
            }
            taken
        }
    };
    let tasks: Vec<_> = (0..8).map(|number| lock_tests::spawn(task(number))).collect();
    world.sentinels.client(0).cmd(&["SENTINEL", "FAILOVER", NAME]).await;
    let promoted = world.promoted().await;
    wait_for_client(promoted).await;
    let after = client.mutex("after").lock().await.unwrap();
    assert!(promoted.client().exists("after").await);
    after.release().await.unwrap();
    stop.send(true).unwrap();
    for task in tasks {
        assert!(timeout(FAILOVER, task).await.expect("hung").unwrap() > 0);
    }
}
