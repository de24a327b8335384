//! `RPermitExpirableSemaphore` beside our semaphore (S-30).

use crate::interop::world::*;

const CHANNEL: &str = "redisson_sc:{s}";

fn two(client: &LockClient) -> Semaphore {
    client.semaphore("s", 2)
}

async fn java_sees_free(world: &mut World, permits: u32) {
    assert_eq!(world.java.ask("t", "available permit s").await, permits.to_string());
}

/// S-30: permits of both come out of one number, and each that comes back reaches the other side.
async fn permits_are_shared(world: &mut World) {
    let two = two(&world.client);
    let ours = two.acquire().await.unwrap();
    java_sees_free(world, 1).await;
    // Without a lease of its own: Redisson renews no permits.
    let theirs = world.java.ask("t", "acquire permit s -1").await;
    java_sees_free(world, 0).await;
    assert!(two.try_acquire().await.unwrap().is_none());
    assert_eq!(world.java.ask("u", "try permit s 50 1000").await, "null");
    let seen = world.seen("s").await;
    assert_eq!(
        (seen.kind, seen.holders.len(), seen.remaining),
        (Some(HoldKind::Semaphore), 2, None)
    );

    let waits = two.clone();
    let waiting = lock_tests::spawn(async move { waits.acquire().await });
    world.server.wait_for_subscribers(CHANNEL, 1).await;
    assert_eq!(world.java.ask("t", &format!("release permit s {theirs}")).await, "true");
    let more = timeout(AT_ONCE, waiting).await.expect("not told").unwrap().unwrap();

    let waiting = world.java.begin("u", "acquire permit s 60000");
    world.java.is_parked("u").await;
    assert!(world.java.is_busy(&waiting).await);
    ours.release().await.unwrap();
    let theirs = world.java.end(waiting, AT_ONCE).await;
    assert!(two.try_acquire().await.unwrap().is_none());
    more.release().await.unwrap();
    java_sees_free(world, 1).await;
    assert_eq!(world.java.ask("t", &format!("release permit s {theirs}")).await, "true");
    java_sees_free(world, 2).await;
}

// S-30: a semaphore whose number of permits Redisson set.
interop!(made_by_java_it_is_shared, async |mut world| {
    assert_eq!(world.java.ask("t", "set permit s 2").await, "true");
    permits_are_shared(&mut world).await;
    permits_are_shared(&mut world).await;
});

// S-30: one that ours made by its first acquire.
interop!(made_by_rust_it_is_shared, async |mut world| {
    permits_are_shared(&mut world).await;
    permits_are_shared(&mut world).await;
    assert_eq!(world.java.ask("t", "set permit s 5").await, "false");
});

interop!(leases_of_java_end_for_us, async |mut world| {
    world.java.ask("t", "set permit s 2").await;
    let many = two(&world.client);
    let ended = world.java.ask("t", "acquire permit s 700").await;
    let ours = many.acquire().await.unwrap();
    assert!(many.try_acquire().await.unwrap().is_none());
    let next = timeout(AT_ONCE, many.acquire()).await.expect("never comes back").unwrap();
    assert_eq!(world.java.ask("t", &format!("release permit s {ended}")).await, "false");
    assert_eq!(world.java.ask("t", "try permit s 50 1000").await, "null");
    ours.release().await.unwrap();
    next.release().await.unwrap();
    java_sees_free(&mut world, 2).await;
});

interop!(several_at_once_count_each, async |mut world| {
    let both = two(&world.client).acquire_many(2).await.unwrap();
    java_sees_free(&mut world, 0).await;
    let waiting = ["t", "u"].map(|thread| world.java.begin(thread, "acquire permit s 60000"));
    for thread in ["t", "u"] {
        world.java.is_parked(thread).await;
    }
    both.release().await.unwrap();
    for waiting in waiting {
        world.java.end(waiting, AT_ONCE).await;
    }
    assert!(two(&world.client).try_acquire().await.unwrap().is_none());
});

// S-32: `RSemaphore` knows nothing of who has its permits. In use it is refused, not shared.
interop!(a_plain_semaphore_in_use_is_a_collision, async |mut world| {
    assert_eq!(world.java.ask("t", "set plain-semaphore s 2").await, "true");
    assert_eq!(world.java.ask("t", "try plain-semaphore s").await, "true");
    let refused = two(&world.client).acquire().await.unwrap_err();
    assert!(matches!(refused, LockError::KeyCollision { .. }), "{refused:?}");
    assert_eq!(world.java.ask("t", "available plain-semaphore s").await, "1");
});

// Permits freed by force are free for Java, and its holder is told when it gives its own back.
interop!(permits_of_java_are_freed_by_force, async |mut world| {
    world.java.ask("t", "set permit s 2").await;
    let first = world.java.ask("t", "acquire permit s 60000").await;
    world.java.ask("t", "acquire permit s -1").await;
    let waiting = world.java.begin("u", "acquire permit s 60000");
    world.java.is_parked("u").await;
    assert!(world.client.admin().force_release("s").await.unwrap());
    world.java.end(waiting, AT_ONCE).await;
    assert_eq!(world.java.ask("t", &format!("release permit s {first}")).await, "false");
    let ours = timeout(SOON, two(&world.client).acquire()).await.unwrap().unwrap();
    assert!(two(&world.client).try_acquire().await.unwrap().is_none());
    ours.release().await.unwrap();
});
