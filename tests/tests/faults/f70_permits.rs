//! Fault 70: the limit of a semaphore is lowered while all permits are in use, and a holder of permits is killed (SIGKILL).
//!
//! - Promised: no permit is granted before fewer are in use than the new limit; the permits of the dead holder come back when
//!   its lease ends, and none is lost.
//! - Seen: the permits of the dead holder are back after 1 s.

use crate::prelude::*;

test_with!(a_lower_limit_counts_at_once, RedisServer::start(), async |server| {
    let connect = async || LockClient::connect(&server.url()).await.unwrap();
    let (before, after) = (connect().await, connect().await);
    let mut held = Vec::new();
    for _ in 0..5 {
        held.push(before.semaphore("permits", 5).acquire().await.unwrap());
    }
    let lowered = after.semaphore("permits", 2);
    while held.len() >= 2 {
        assert!(lowered.try_acquire().await.unwrap().is_none(), "{} are in use", held.len());
        held.pop().unwrap().release().await.unwrap();
    }
    let second = timeout(SOON, lowered.acquire()).await.expect("there is room").unwrap();
    assert!(lowered.try_acquire().await.unwrap().is_none());
    second.release().await.unwrap();
});

test_with!(permits_of_the_dead_come_back, RedisServer::start(), async |server| {
    // It asks by itself later than this test ends.
    let client = LockClient::builder().poll_cap(SOON * 2).connect(&server.url()).await.unwrap();
    let history = tempfile::tempdir().unwrap();
    let mut worker = locks_worker(&server, history.path(), &[]).await;
    worker.send(&format!("take permits 3 2 {}", LEASE.as_millis()));
    assert!(worker.next_line(SOON).await.starts_with("held "));
    let permits = client.semaphore("permits", 3);
    let recorder = Arc::new(Recorder::create(history.path()).unwrap());
    let [first, second] = [1, 2].map(|count| {
        Witness::new(&recorder, count.into(), "permits", Share::Permits { count, limit: 3 })
    });
    let one = first.acquire(permits.acquire()).await.unwrap();
    assert!(permits.try_acquire().await.unwrap().is_none());
    worker.sigkill();
    let start = Instant::now();
    let two = second.acquire(permits.acquire_many(2));
    let two = timeout(SOON, two).await.expect("lost permits").unwrap();
    eprintln!("all permits are back after {:?}", start.elapsed());
    one.release().await.unwrap();
    two.release().await.unwrap();
    let all = permits.acquire_many(3).await.unwrap();
    all.release().await.unwrap();
    checked(history.path(), 3);
});
