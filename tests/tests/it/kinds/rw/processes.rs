//! Readers and writers in processes of their own, killed in the middle of what they do.

use lock_tests::history::{Recorder, Rules};

use crate::kinds::rw::*;
use crate::support::workers::{ANSWER, Workers as World, numbers, told};

/// S-27: killed among live ones, a reader expires alone: within its lease, and nobody else with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_reader_expires_alone() {
    let world = World::new().await;
    let mut workers = world.workers::<2>().await;
    for worker in &mut workers {
        told(worker, "lock read k 1000", "locked").await;
    }
    let ours = world.client.rw_lock("k").read().await.unwrap();
    assert_eq!(holds(&world.server, "k").await.len(), 3);
    workers[0].sigkill();
    let killed = Instant::now();
    let alive = async || {
        let keys = world.server.client().keys().await;
        keys.iter().filter(|key| key.contains(":rwlock_timeout:")).count()
    };
    eventually(ANSWER, "the dead one has expired", async || alive().await == 2).await;
    let took = killed.elapsed();
    assert!(took < ms(1800), "{took:?}");
    // Several leases on, the others are still there.
    tokio::time::sleep(secs(3)).await;
    assert_eq!(alive().await, 2);
    assert!(world.client.rw_lock("k").try_write().await.unwrap().is_none());
    // A live one that leaves takes the dead one's traces along, and the last one frees the lock.
    told(&mut workers[1], "release", "released").await;
    assert_eq!(holds(&world.server, "k").await.len(), 1);
    let writer = writing(&world.client, "k");
    announced(&world.server, "k", 1).await;
    ours.release().await.unwrap();
    got(writer, at_once()).await.release().await.unwrap();
    nothing_left(&world.server, "k").await;
}

/// S-27: the last readers are dead; a writer gets in when their leases have passed, not later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_waits_for_dead_readers_no_longer_than_their_lease() {
    let world = World::new().await;
    let mut worker = world.worker().await;
    told(&mut worker, "lock read d 1000", "locked").await;
    let ours = world.client.rw_lock("d").read().await.unwrap();
    let writer = writing(&world.client, "d");
    announced(&world.server, "d", 1).await;
    worker.sigkill();
    let killed = Instant::now();
    ours.release().await.unwrap();
    got(writer, ANSWER).await.release().await.unwrap();
    // One lease, and what may pass until the writer looks again.
    assert!(killed.elapsed() < secs(3), "{:?}", killed.elapsed());
    nothing_left(&world.server, "d").await;
}

/// S-17, S-27: a waiting writer is killed: its announcement lapses and readers go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_waiting_writer_holds_readers_up_for_its_announcement_only() {
    let world = World::new().await;
    let mut worker = world.worker().await;
    let ours = world.client.rw_lock("a").read().await.unwrap();
    worker.send("lock write a 1000");
    announced(&world.server, "a", 1).await;
    let other = connect(&world.server).await;
    // Past the time in which the store's last answer to our own reader counts.
    tokio::time::sleep(ms(20)).await;
    let waiters = [reading(&world.client, "a"), reading(&other, "a")];
    listening(&world.server, "a", 3).await;
    worker.sigkill();
    let killed = Instant::now();
    drop(all_got(waiters, ANSWER).await);
    // The default of `waiter_lease` is 5 s.
    let took = killed.elapsed();
    assert!(took < secs(6), "{took:?}");
    ours.release().await.unwrap();
    nothing_left(&world.server, "a").await;
}

/// S-27: a writer is killed while it writes: readers and writers go on when its lease has passed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_writer_frees_the_lock_within_its_lease() {
    let world = World::new().await;
    let mut worker = world.worker().await;
    told(&mut worker, "lock write w 1000", "locked").await;
    let waiter = reading(&world.client, "w");
    listening(&world.server, "w", 1).await;
    worker.sigkill();
    let killed = Instant::now();
    drop(got(waiter, ANSWER).await);
    assert!(killed.elapsed() < ms(1800), "{:?}", killed.elapsed());
    nothing_left(&world.server, "w").await;
}

/// S-23, S-27: readers and writers of three processes, one of them killed on the way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_read_and_write() {
    let world = World::new().await;
    let mut workers = world.workers::<3>().await;
    for worker in &mut workers {
        worker.send("rw-hammer h 6 2 3000");
    }
    tokio::time::sleep(ms(1500)).await;
    let [dead, alive @ ..] = &mut workers;
    dead.sigkill();
    Recorder::create(world.history.path()).unwrap().record_kill(dead.id());
    for worker in alive {
        let [reads, writes] = numbers(worker).await;
        // A busy machine makes fewer of both.
        let (fewer, more) = (reads.min(writes), reads.max(writes));
        assert!(fewer > 3 && fewer * 60 > more, "one side starved: {reads} reads, {writes} writes");
    }
    let report = world.history().check(&Rules::default());
    report.assert_clean();
    assert!(report.updates > 0, "{report}");
    // It may have held the lock, for the usual lease.
    nothing_left_of_the_dead(&world.server, "h", secs(30)).await;
}
