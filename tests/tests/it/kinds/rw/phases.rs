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

/// Several local readers that share a hold waited for the write as long as the one of them that asks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_local_line_of_readers_goes_with_its_head() {
    let (server, client) = world().await;
    let proxy = lock_tests::Proxy::start(server.port()).await;
    let far = connect(&proxy).await;
    // The answer that grants the read is old when it arrives.
    proxy.delay(ms(15));
    let other = connect(&server).await;
    let writer = client.rw_lock("line").write().await.unwrap();
    let readers: Vec<_> = (0..5).map(|_| reading(&far, "line")).collect();
    listening(&server, "line", 1).await;
    let next = writing(&other, "line");
    announced(&server, "line", 1).await;
    let waits = async || server.client().exists("redisson_rwlock_due_readers:{line}").await;
    eventually(PROMPTLY, "the head of the line waits in the store", waits).await;
    writer.release().await.unwrap();
    let mut guards = Vec::new();
    for reader in readers {
        guards.push(got(reader, PROMPTLY).await);
        assert!(!next.is_finished(), "a writer overtook a reader of the line");
    }
    drop(guards);
    got(next, PROMPTLY).await.release().await.unwrap();
    nothing_left(&server, "line").await;
}

/// A waiting reader that has died keeps writers for the rest of its place, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_waiting_reader_keeps_writers_for_its_place_only() {
    let (server, client) = world().await;
    let writer = client.rw_lock("g").write().await.unwrap();
    let raw = server.client();
    // As a process that has stopped: it hears nothing and asks for nothing.
    let place = "redisson_rwlock_due_readers:{g}";
    let reader = connect(&server).await;
    let waiting = reading(&reader, "g");
    soon!("the reader waits in the store", raw.exists(place).await);
    let silent = (raw.time_millis().await + 3_000).to_string();
    raw.cmd(&["ZADD", place, &silent, "silent:1"]).await;
    raw.cmd(&["PEXPIRE", place, "5000"]).await;
    writer.release().await.unwrap();
    drop(got(waiting, PROMPTLY).await);
    let released = Instant::now();
    assert!(client.rw_lock("g").try_write().await.unwrap().is_none(), "the phase is over already");
    got(writing(&client, "g"), PROMPTLY).await.release().await.unwrap();
    assert!(released.elapsed() < patience(PROMPTLY), "waited {:?}", released.elapsed());
    let asked = Instant::now();
    got(writing(&client, "g"), PROMPTLY).await.release().await.unwrap();
    assert!(asked.elapsed() < at_once(), "waited again for {:?}", asked.elapsed());
    nothing_left_of_the_dead(&server, "g", secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_gave_up_keeps_no_writer() {
    for times_out in [false, true] {
        let (server, client) = world().await;
        let (other, third) = (connect(&server).await, connect(&server).await);
        let name = "d";
        let writer = client.rw_lock(name).write().await.unwrap();
        let limit = if times_out { ms(300) } else { PROMPTLY };
        let options = waits(Wait::UpTo(limit));
        let lock = other.rw_lock(name).with(options);
        let waiting = lock_tests::spawn(async move { lock.read().await });
        listening(&server, name, 1).await;
        if !times_out {
            waiting.abort();
        }
        let ended = waiting.await;
        assert!(ended.is_err() || ended.unwrap().is_err());
        writer.release().await.unwrap();
        let asked = Instant::now();
        got(writing(&third, name), PROMPTLY).await.release().await.unwrap();
        assert!(asked.elapsed() < at_once(), "waited {:?} for nobody", asked.elapsed());
        nothing_left(&server, name).await;
    }
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
