//! `RReadWriteLock` beside ours (S-27).

use crate::interop::java::Redisson;
use crate::interop::world::*;

async fn reads(lock: &RwLock) -> Option<LockGuard> {
    lock.try_read().await.unwrap()
}

async fn writes(lock: &RwLock) -> Option<LockGuard> {
    lock.try_write().await.unwrap()
}

// S-27: readers of both sides together; a writer of either waits for all, the last to go tells it.
interop!(readers_of_both_keep_writers_out, async |mut world| {
    let lock = world.client.rw_lock("rw");
    for java_is_last in [true, false] {
        world.java.ask("one", "lock read rw").await;
        let ours = reads(&lock).await.expect("readers share");
        assert_eq!(world.java.ask("two", "try read rw").await, "true");
        world.sees("rw", HoldKind::Read, &[1, 1, 1], HALF_A_MINUTE).await;
        world.java_sees("read", "rw", HALF_A_MINUTE).await;
        assert!(writes(&lock).await.is_none());
        world.java_is_refused("write", "rw").await;
        world.java.ask("two", "unlock read rw").await;
        assert!(writes(&lock).await.is_none());
        world.java_is_refused("write", "rw").await;
        if java_is_last {
            ours.release().await.unwrap();
            let writer = world.waits(lock.write(), &rw_channel("rw")).await;
            world.java.ask("one", "unlock read rw").await;
            got(writer).await.release().await.unwrap();
        } else {
            world.java.ask("one", "unlock read rw").await;
            let writer = world.java_waits("w", "lock write rw", &rw_channel("rw")).await;
            ours.release().await.unwrap();
            world.java.end(writer, AT_ONCE).await;
            world.java.ask("w", "unlock write rw").await;
        }
        world.nothing_left("rw").await;
    }
});

// S-27: a writer of either is alone, and its end wakes the readers of the other side.
interop!(a_writer_of_either_is_alone, async |mut world| {
    let lock = world.client.rw_lock("rw");
    world.java.ask("w", "lock write rw").await;
    world.java.ask("w", "lock write rw").await;
    // Entered again, Redisson adds the leases up.
    world.sees("rw", HoldKind::Write, &[2], 2 * HALF_A_MINUTE).await;
    assert!(reads(&lock).await.is_none() && writes(&lock).await.is_none());
    world.java.ask("w", "unlock write rw").await;
    assert!(reads(&lock).await.is_none() && writes(&lock).await.is_none());
    let readers = [lock.read(), lock.read()].map(lock_tests::spawn);
    world.server.wait_for_subscribers(&rw_channel("rw"), 1).await;
    world.java.ask("w", "unlock write rw").await;
    for reader in readers {
        got(reader).await.release().await.unwrap();
    }

    let writer = lock.write().await.unwrap();
    world.java_sees("write", "rw", HALF_A_MINUTE).await;
    assert_eq!(world.java.ask("one", "locked read rw").await, "false");
    world.java_is_refused("write", "rw").await;
    world.java_is_refused("read", "rw").await;
    let readers = ["one", "two"].map(|thread| world.java.begin(thread, "lock read rw"));
    for thread in ["one", "two"] {
        world.java.is_parked(thread).await;
    }
    writer.release().await.unwrap();
    for reader in readers {
        world.java.end(reader, AT_ONCE).await;
    }
    world.sees("rw", HoldKind::Read, &[1, 1], HALF_A_MINUTE).await;
});

interop!(a_java_reader_that_entered_twice_stays, async |mut world| {
    let lock = world.client.rw_lock("rw");
    world.java.ask("one", "lock read rw").await;
    world.java.ask("one", "lock read rw").await;
    world.sees("rw", HoldKind::Read, &[2], HALF_A_MINUTE).await;
    assert_eq!(world.java.ask("one", "holds read rw").await, "2");
    let ours = reads(&lock).await.expect("readers share");
    world.java.ask("one", "unlock read rw").await;
    ours.release().await.unwrap();
    assert!(writes(&lock).await.is_none());
    world.java.ask("one", "unlock read rw").await;
    writes(&lock).await.expect("no reader holds it").release().await.unwrap();
});

/// S-10, S-27: the watchdogs of both keep their own readers, and the end of one leaves the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Maven: cargo xtask interop"]
async fn readers_are_renewed_side_by_side() {
    let short = ms(900);
    let mut world = World::with(Redisson { watchdog: short, ..Redisson::default() }).await;
    let lock = world.client.rw_lock("rw").with(watched(short));
    for java_is_last in [true, false] {
        world.java.ask("one", "lock read rw").await;
        let ours = reads(&lock).await.expect("readers share");
        let watch_both = Instant::now() + 3 * short;
        while Instant::now() < watch_both {
            assert_eq!(world.seen("rw").await.holders.len(), 2);
            assert_eq!(world.java.ask("w", "try write rw").await, "false");
        }
        let mut last = Some(ours);
        if java_is_last {
            last.take().unwrap().release().await.unwrap();
        } else {
            world.java.ask("one", "unlock read rw").await;
        }
        let watch_one = Instant::now() + 2 * short;
        while Instant::now() < watch_one {
            assert_eq!(world.seen("rw").await.holders.len(), 1);
            assert!(writes(&lock).await.is_none());
        }
        match last {
            Some(ours) => ours.release().await.unwrap(),
            None => drop(world.java.ask("one", "unlock read rw").await),
        }
        writes(&lock).await.expect("no reader holds it").release().await.unwrap();
    }
}

// S-27: our downgrade lets Java's waiting readers in at once, and no writer.
interop!(our_downgrade_lets_java_read, async |mut world| {
    let lock = world.client.rw_lock("rw");
    let writer = lock.write().await.unwrap();
    let waiting = world.java_waits("one", "lock read rw", &rw_channel("rw")).await;
    let reader = writer.run(lock.read()).await.unwrap().unwrap();
    assert!(world.java.is_busy(&waiting).await);
    writer.release().await.unwrap();
    world.java.end(waiting, AT_ONCE).await;
    world.java_is_refused("write", "rw").await;
    world.sees("rw", HoldKind::Read, &[1, 1], HALF_A_MINUTE).await;
    reader.release().await.unwrap();
    world.java_is_refused("write", "rw").await;
    world.java.ask("one", "unlock read rw").await;
    world.nothing_left("rw").await;
});

// S-15, S-27: Redisson tells nobody of its downgrade. Our readers find out when they look again, at
// the poll cap at the latest.
interop!(our_readers_find_javas_downgrade, async |mut world| {
    let builder = LockClient::builder().poll_cap(ms(500));
    let client = builder.connect(&world.server.url()).await.unwrap();
    let lock = client.rw_lock("rw");
    world.java.ask("w", "lock write rw").await;
    world.java.ask("w", "lock read rw").await;
    let waiting = world.waits(lock.read(), &rw_channel("rw")).await;
    let heard = world.server.subscribe_log(&rw_channel("rw")).await;
    world.java.ask("w", "unlock write rw").await;
    let ours = timeout(SOON, waiting).await.expect("never looked").unwrap().unwrap();
    assert_eq!(heard.payloads(), [""; 0], "Redisson has learnt to tell: expect AT_ONCE here");
    assert!(writes(&lock).await.is_none());
    world.java.ask("w", "unlock read rw").await;
    assert!(writes(&lock).await.is_none());
    ours.release().await.unwrap();
    world.java.ask("w", "try write rw").await;
    assert!(reads(&lock).await.is_none());
});

// S-27: our readers let our waiting writer go first; Java's do not know of it, and hold it up.
interop!(java_readers_pass_our_waiting_writer, async |mut world| {
    let lock = world.client.rw_lock("rw");
    world.java.ask("one", "lock read rw").await;
    let writer = world.waits(lock.write(), &rw_channel("rw")).await;
    soon!("announced", world.seen("rw").await.waiting == 1);
    let other = LockClient::connect(&world.server.url()).await.unwrap();
    assert!(reads(&other.rw_lock("rw")).await.is_none());
    assert_eq!(world.java.ask("two", "try read rw").await, "true");
    world.java.ask("one", "unlock read rw").await;
    assert!(writes(&other.rw_lock("rw")).await.is_none());
    assert!(!writer.is_finished());
    world.java.ask("two", "unlock read rw").await;
    got(writer).await.release().await.unwrap();
});
