//! Readers and writers take turns: after a write, the readers that waited go before the next writer (S-27).

use crate::kinds::rw::*;
use crate::support::writers::reads_beside_writers;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_have_their_turns_beside_steady_writers() {
    let (server, client) = world().await;
    let writers = [connect(&server).await, connect(&server).await];
    reads_beside_writers(&writers, &[client, writers[0].clone()], "p").await;
    nothing_left(&server, "p").await;
}

#[tokio::test(start_paused = true)]
async fn readers_have_their_turns_beside_steady_writers_in_memory() {
    let store = MemoryStore::new();
    let client = || LockClient::builder().store(store.peer()).unwrap();
    let writers = [client(), client()];
    reads_beside_writers(&writers, &[client(), writers[0].clone()], "p").await;
}

/// S-17: the same where the lock is free and a writer waits for this reader alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_due_reader_that_gives_up_wakes_the_writer() {
    let (server, client) = world().await;
    let raw = server.client();
    let writer = client.rw_lock("u").write().await.unwrap();
    let (reader, other) = (connect(&server).await, connect(&server).await);
    let lock = reader.rw_lock("u");
    let mut waiting = Box::pin(lock.read());
    soon!("the reader waits in the store", {
        // Polled only here: it does not hear that the writer is done.
        assert!(futures_util::poll!(&mut waiting).is_pending());
        raw.exists("redisson_rwlock_due_readers:{u}").await
    });
    let next = writing(&other, "u");
    announced(&server, "u", 1).await;
    server.reset_stats().await;
    writer.release().await.unwrap();
    // The release, and the question that its notice leads to.
    let asked = async || server.command_calls().await.get("evalsha").is_some_and(|&n| n >= 2);
    eventually(PROMPTLY, "the next writer asks", asked).await;
    assert!(!raw.exists("u").await, "the writer did not wait for the reader");
    drop(waiting);
    got(next, at_once()).await.release().await.unwrap();
    nothing_left(&server, "u").await;
}
