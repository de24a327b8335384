//! `RMultiLock` of `RLock`s beside our multi lock (S-28).

use crate::interop::world::*;

// S-28: several in Java's hands are had by ours once all are free, in whatever order they were named.
interop!(java_holds, async |mut world| {
    let both = world.client.multi_lock(["a", "b"]);
    world.java.ask("t", "lock multi b,a").await;
    for name in ["a", "b"] {
        world.sees(name, HoldKind::Mutex, &[1], HALF_A_MINUTE).await;
        assert!(world.client.mutex(name).try_lock().await.unwrap().is_none());
    }
    assert!(both.try_lock().await.unwrap().is_none());
    let waiting = lock_tests::spawn(both.lock());
    a_waiter_listens(&world).await;
    world.java.ask("t", "unlock multi b,a").await;
    let guard = got(waiting).await;

    // One of them is enough to be refused, and leaves nothing taken.
    guard.release().await.unwrap();
    world.java.ask("t", "lock mutex b").await;
    assert!(both.try_lock().await.unwrap().is_none());
    assert!(!world.server.client().exists("a").await);
    let waiting = lock_tests::spawn(both.lock());
    a_waiter_listens(&world).await;
    world.java.ask("t", "unlock mutex b").await;
    got(waiting).await.release().await.unwrap();
    world.nothing_left("a").await;
    world.nothing_left("b").await;
});

// S-28: in our hands they are refused to Java, one by one and together, and had once told.
interop!(rust_holds, async |mut world| {
    let both = world.client.multi_lock(["a", "b"]);
    let guard = both.lock().await.unwrap();
    for name in ["a", "b"] {
        world.java_sees("mutex", name, HALF_A_MINUTE).await;
        world.java_is_refused("mutex", name).await;
    }
    assert_eq!(world.java.ask("t", "try multi b,a").await, "false");
    let waiting = world.java_waits("t", "lock multi b,a", &lock_channel("b")).await;
    guard.release().await.unwrap();
    world.java.end(waiting, AT_ONCE).await;
    assert!(both.try_lock().await.unwrap().is_none());
    world.java.ask("t", "unlock multi b,a").await;

    // With only one of them, its `tryLock` takes none for good.
    let guard = world.client.mutex("b").lock().await.unwrap();
    assert_eq!(world.java.ask("t", "try multi a,b").await, "false");
    assert!(!world.server.client().exists("a").await);
    let waiting = world.java_waits("t", "lock multi a,b", &lock_channel("b")).await;
    guard.release().await.unwrap();
    // It is told of `b`, or had let go of both for a moment to begin anew.
    world.java.end(waiting, SOON).await;
    let ours = lock_tests::spawn(both.lock());
    a_waiter_listens(&world).await;
    world.java.ask("t", "unlock multi a,b").await;
    timeout(AT_ONCE, ours).await.expect("not told").unwrap().unwrap().release().await.unwrap();
});

/// Waits until one that waits for both listens for one of them.
async fn a_waiter_listens(world: &World) {
    soon!("a waiter listens", {
        let (a, b) = (lock_channel("a"), lock_channel("b"));
        world.server.pubsub_numsub(&a).await + world.server.pubsub_numsub(&b).await > 0
    });
}
