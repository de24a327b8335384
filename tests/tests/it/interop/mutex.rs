//! `RLock` and `RFencedLock` beside our mutex (S-23, S-25).

use crate::interop::java::Redisson;
use crate::interop::world::*;

const A_MINUTE: Duration = secs(60);

// S-25, S-15: held by Java it is refused, seen with its holds and its lease, and had once told.
interop!(java_holds, async |mut world| {
    let mutex = world.client.mutex("m");
    world.java.ask("t", "lock mutex m").await;
    world.sees("m", HoldKind::Mutex, &[1], HALF_A_MINUTE).await;
    assert!(mutex.try_lock().await.unwrap().is_none());
    world.java.ask("t", "lock mutex m 60000").await;
    world.sees("m", HoldKind::Mutex, &[2], A_MINUTE).await;
    let waiting = world.waits(mutex.lock(), &lock_channel("m")).await;
    // Still held once; that is told nobody. Redisson's lease is now the default one.
    world.java.ask("t", "unlock mutex m").await;
    world.sees("m", HoldKind::Mutex, &[1], HALF_A_MINUTE).await;
    assert!(!waiting.is_finished());
    world.java.ask("t", "unlock mutex m").await;
    got(waiting).await.release().await.unwrap();
    world.nothing_left("m").await;
});

// S-4, S-25: held by us Java is refused it, cannot unlock it, sees its lease, and has it once told.
interop!(rust_holds, async |mut world| {
    for (options, length) in [(watched(HALF_A_MINUTE), HALF_A_MINUTE), (fixed(A_MINUTE), A_MINUTE)]
    {
        let guard = world.client.mutex("m").with(options).lock().await.unwrap();
        world.java_sees("mutex", "m", length).await;
        world.java_is_refused("mutex", "m").await;
        world.java_cannot_unlock("mutex", "m").await;
        world.java_sees("mutex", "m", length).await;
        let waiting = world.java_waits("t", "lock mutex m", &lock_channel("m")).await;
        guard.release().await.unwrap();
        assert_eq!(world.java.end(waiting, AT_ONCE).await, "locked");
        assert_eq!(world.java.ask("t", "holds mutex m").await, "1");
        world.java.ask("t", "unlock mutex m").await;
    }
    world.nothing_left("m").await;
});

// S-6: entered again, ours is held once for Java's eyes, and its last release is the one.
interop!(our_re_entry_keeps_java_out_to_the_end, async |mut world| {
    let mutex = world.client.mutex("m");
    let outer = mutex.lock().await.unwrap();
    let inner = outer.run(mutex.lock()).await.unwrap().unwrap();
    assert_eq!(world.seen("m").await.holders.first().map(|holder| holder.count), Some(1));
    inner.release().await.unwrap();
    world.java_is_refused("mutex", "m").await;
    outer.release().await.unwrap();
    assert_eq!(world.java.ask("t", "try mutex m").await, "true");
});

/// S-10: either watchdog keeps the other side out for longer than one lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Maven: cargo xtask interop"]
async fn watchdogs_keep_the_other_side_out() {
    let short = ms(900);
    let mut world = World::with(Redisson { watchdog: short, ..Redisson::default() }).await;
    let mutex = world.client.mutex("m").with(watched(short));
    let leases = Instant::now() + 3 * short;
    world.java.ask("t", "lock mutex m").await;
    while Instant::now() < leases {
        assert!(mutex.try_lock().await.unwrap().is_none());
    }
    world.java.ask("t", "unlock mutex m").await;
    let guard = mutex.try_lock().await.unwrap().expect("unlocked");
    let leases = Instant::now() + 3 * short;
    while Instant::now() < leases {
        assert_eq!(world.java.ask("t", "try mutex m").await, "false");
    }
    guard.release().await.unwrap();
    assert_eq!(world.java.ask("t", "try mutex m").await, "true");
}

// S-12: a fixed lease ends for both sides, told or not.
interop!(fixed_leases_end, async |mut world| {
    let short = ms(800);
    let mutex = world.client.mutex("m");
    world.java.ask("t", "lock mutex m 800").await;
    let waiting = world.waits(mutex.lock(), &lock_channel("m")).await;
    got(waiting).await.release().await.unwrap();
    world.java_cannot_unlock("mutex", "m").await;

    let ours = mutex.with(fixed(short)).lock().await.unwrap();
    let waiting = world.java_waits("t", "lock mutex m", &lock_channel("m")).await;
    assert_eq!(world.java.end(waiting, AT_ONCE).await, "locked");
    assert!(ours.is_lost());
    assert!(matches!(ours.release().await, Err(LockError::Lost { .. })));
    assert_eq!(world.java.ask("t", "holds mutex m").await, "1");
});

interop!(tokens_grow_across_both, async |mut world| {
    let mutex = world.client.mutex("m");
    let mut last = 0;
    for round in 0..6 {
        let token = if round % 2 == 0 {
            let token = world.java.ask("t", "token fenced m").await.parse().unwrap();
            assert!(mutex.try_lock().await.unwrap().is_none());
            world.java.ask("t", "unlock fenced m").await;
            token
        } else {
            let guard = mutex.try_lock().await.unwrap().expect("free");
            world.java_is_refused("fenced", "m").await;
            let token = guard.token().get();
            guard.release().await.unwrap();
            token
        };
        assert!(token > last, "{token} after {last} in round {round}");
        last = token;
        // Redisson would never renew an end that we gave its counter.
        assert_eq!(world.server.client().pttl("redisson_lock_token:{m}").await, Ttl::Forever);
    }
});

/// S-2: a namespace of ours is what a `NameMapper` puts in front.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Maven: cargo xtask interop"]
async fn a_namespace_is_a_name_mapper() {
    let mut world = World::with(Redisson { namespace: Some("shop"), ..Redisson::default() }).await;
    let shop = LockClient::builder().namespace("shop").connect(&world.server.url()).await.unwrap();
    let guard = shop.mutex("m").lock().await.unwrap();
    world.java_is_refused("mutex", "m").await;
    let waiting = world.java_waits("t", "lock mutex m", &lock_channel("shop:m")).await;
    guard.release().await.unwrap();
    world.java.end(waiting, AT_ONCE).await;
    assert!(shop.mutex("m").try_lock().await.unwrap().is_none());
    assert!(world.client.mutex("m").try_lock().await.unwrap().is_some(), "without the namespace");
    let waiting = world.waits(shop.mutex("m").lock(), &lock_channel("shop:m")).await;
    world.java.ask("t", "unlock mutex m").await;
    got(waiting).await.release().await.unwrap();

    // A fair lock's line and a read/write lock's time-outs have names of their own.
    let waits = shop.fair_mutex("f").lock();
    world.java.ask("t", "lock fair f").await;
    let waiting = lock_tests::spawn(waits);
    soon!("in line", shop.admin().inspect("f").await.unwrap().waiting == 1);
    world.java.ask("t", "unlock fair f").await;
    got(waiting).await.release().await.unwrap();
    let reader = shop.rw_lock("rw").read().await.unwrap();
    assert_eq!(world.java.ask("t", "try read rw").await, "true");
    world.java_is_refused("write", "rw").await;
    world.java.ask("t", "unlock read rw").await;
    world.java_is_refused("write", "rw").await;
    reader.release().await.unwrap();
    assert_eq!(world.java.ask("t", "try write rw").await, "true");
}
