//! Readers and writers in processes of their own, killed in the middle of what they do.

use crate::kinds::rw::*;
use crate::support::workers::{ANSWER, Workers as World, told};

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
    assert!(killed.elapsed() < patience(secs(3)), "{:?}", killed.elapsed());
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
    assert!(took < patience(secs(6)), "{took:?}");
    ours.release().await.unwrap();
    nothing_left(&world.server, "a").await;
}
