//! What a fail-over does to locks that are held, waited for, and asked for.

use super::world::{FAILOVER, World, builder, long, reach};
use crate::prelude::*;

// S-9, S-15: the master dies. Who holds a lock that the replica knows of keeps it, with its token, and
// renews it; who waits is woken by its release on the new master.
test_with!(the_master_dies, World::new(1), async |world| {
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
});

// S-31: a lock that a replica has acknowledged survives its master, and more can be taken after it: the
// second connection follows to the new master, too.
test_with!(an_acknowledged_lock_survives, World::new(2), async |world| {
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
});
