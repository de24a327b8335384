//! Fault 67: five processes that wait in the queue of a fair mutex are killed (SIGKILL).
//!
//! - Promised: together they delay the waiter behind them by one waiter lease at most, not by one each.
//! - Seen: 3 s for five, with a waiter lease of 3 s.

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_delay_the_queue_once() {
    let lease = secs(3);
    let server = RedisServer::start().await;
    let (raw, history) = (server.client(), tempfile::tempdir().unwrap());
    let builder = LockClient::builder().waiter_lease(lease);
    let client = builder.connect(&server.url()).await.unwrap();
    let recorder = Arc::new(Recorder::create(history.path()).unwrap());
    let [first, next] = [0, 1].map(|task| Witness::new(&recorder, task, "line", Share::Exclusive));
    let held = first.acquire(client.fair_mutex("line").lock()).await.unwrap();
    let in_line = async |count: usize| {
        let waiting = async || raw.get::<usize>(&["LLEN", "redisson_lock_queue:{line}"]).await;
        eventually(SOON, "one more waits", async || waiting().await == count).await;
    };
    let mut dead = Vec::new();
    for number in 0..5 {
        let millis = lease.as_millis().to_string();
        let mut worker = locks_worker(&server, history.path(), &[&millis]).await;
        worker.send(&format!("queue line {number}"));
        in_line(number + 1).await;
        dead.push(worker);
    }
    let lock = client.fair_mutex("line");
    let waiter = tokio::spawn(async move { next.acquire(lock.lock()).await?.release().await });
    in_line(6).await;
    dead.iter_mut().for_each(Worker::sigkill);
    let start = Instant::now();
    held.release().await.unwrap();
    timeout(SOON, waiter).await.expect("never its turn").unwrap().unwrap();
    let waited = start.elapsed();
    assert!(waited < patience(2 * lease), "waited {waited:?} for five of {lease:?} each");
    checked(history.path(), 2);
    assert_eq!(raw.keys().await, ["redisson_lock_token:{line}"]);
}
