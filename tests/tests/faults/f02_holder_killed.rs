//! Fault 2: a process is killed (SIGKILL) while it holds a lock of every kind and waits for others.
//!
//! - Promised: others get its locks when its lease is over, and pass over its places in queues after the waiter lease (5 s by
//!   default, 2 s here), however many there are; nothing of it is left.
//! - Seen: every lock of the dead after 1 to 1.1 s; all parties had all locks again 0.5 s after another process
//!   took its place.

use crate::prelude::*;

drill!(every_lock_recovers, Drill::start(), May::Delay, secs(3), async |drill| {
    let line = drill.near.client.fair_mutex("line").with(watched(SOON)).lock().await.unwrap();
    drill.process.send("queue line");
    in_line(drill, 1).await;
    let next = tokio::spawn(drill.far.client.fair_mutex("line").with(waits(SOON)).lock());
    in_line(drill, 2).await;
    drill.process.send("hold");
    assert_eq!(drill.process.next_line(SOON).await, "held");
    drill.kill_process();
    let killed = Instant::now();
    line.release().await.unwrap();
    release_each(hold_each(&drill.near.client, LEASE * 10).await).await;
    let waited = killed.elapsed();
    eprintln!("all locks of the dead after {waited:?}");
    assert!(waited > LEASE / 2, "it held nothing: {waited:?}");
    assert!(waited < patience(LEASE + secs(4)), "longer than the lease of the dead: {waited:?}");
    let bound = (WAITER_LEASE + secs(4)).saturating_sub(killed.elapsed());
    let next = timeout(bound, next).await.expect("a dead waiter goes first for ever");
    next.unwrap().unwrap().release().await.unwrap();
    // A permit of the dead goes when a permit is acquired after its lease.
    release_each(hold_each(&drill.near.client, LEASE * 10).await).await;
    drill.start_process().await;
});

/// Waits until so many wait in the queue.
async fn in_line(drill: &Drill, count: usize) {
    let raw = drill.server.client();
    let waiting = async || raw.get::<usize>(&["LLEN", "redisson_lock_queue:{line}"]).await;
    eventually(SOON, "one more waits in the queue", async || waiting().await == count).await;
}
