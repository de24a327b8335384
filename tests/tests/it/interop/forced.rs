//! Locks that either side frees by force.

use crate::interop::world::*;

// What is freed by force is free for every client, waiters are told, and the holder finds out.
interop!(each_frees_the_others_by_force, async |mut world| {
    let other = LockClient::connect(&world.server.url()).await.unwrap();
    for (kind, rival, channel) in [
        ("mutex", "mutex", lock_channel("mutex")),
        ("read", "write", rw_channel("read")),
        ("write", "write", rw_channel("write")),
    ] {
        let asks = || {
            let other = other.clone();
            async move { take(&other, rival, kind, LockOptions::default()).await }
        };
        world.java.ask("t", &format!("lock {kind} {kind}")).await;
        let waiting = world.waits(asks(), &channel).await;
        assert!(world.client.admin().force_release(kind).await.unwrap());
        got(waiting).await.release().await.unwrap();
        world.java_cannot_unlock(kind, kind).await;
        assert!(!world.client.admin().force_release(kind).await.unwrap());
        let ours = take(&world.client, kind, kind, watched(secs(3))).await.unwrap();
        let waiting = world.waits(asks(), &channel).await;
        assert_eq!(world.java.ask("t", &format!("force {kind} {kind}")).await, "true");
        let next = got(waiting).await;
        // S-9, S-12: its next renewal is told that it is not the owner.
        let lost = timeout(AT_ONCE, ours.lost()).await.expect("a renewal finds out");
        assert!(matches!(lost, LockError::Lost { cause: LossCause::NotOwner, .. }), "{lost:?}");
        next.release().await.unwrap();
        world.nothing_left(kind).await;
    }
});
