//! Who goes first: a waiting writer before new readers, and readers as soon as no writer waits.

use crate::kinds::rw::*;

/// S-17, S-27: new readers, here and elsewhere, wait behind a waiting writer, and go on at once when
/// it gives up, while the reader that was in its way is still there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_who_gives_up_lets_readers_go_on() {
    for times_out in [false, true] {
        let (server, client) = world().await;
        let (other, third) = (connect(&server).await, connect(&server).await);
        let reader = client.rw_lock("up").read().await.unwrap();
        let limit = if times_out { ms(1500) } else { PROMPTLY * 10 };
        let options = waits(Wait::UpTo(limit));
        let writer = third.rw_lock("up").with(options);
        let writer = lock_tests::spawn(async move { writer.write().await });
        announced(&server, "up", 1).await;
        // Past the window in which readers join without asking.
        sleep(ms(20)).await;
        for client in [&client, &other] {
            assert!(client.rw_lock("up").try_read().await.unwrap().is_none(), "readers go first");
        }
        let waiters: Vec<_> =
            [&client, &client, &other].into_iter().map(|client| reading(client, "up")).collect();
        listening(&server, "up", 3).await;
        sleep(ms(50)).await;
        assert!(waiters.iter().all(|waiter| !waiter.is_finished()), "readers overtook the writer");
        if times_out {
            let error = timeout(PROMPTLY, writer).await.unwrap().unwrap().unwrap_err();
            assert!(matches!(error, LockError::Timeout { .. }), "{error}");
        } else {
            writer.abort();
            assert!(writer.await.unwrap_err().is_cancelled());
        }
        let gave_up = Instant::now();
        drop(all_got(waiters, PROMPTLY).await);
        assert!(gave_up.elapsed() < at_once(), "readers waited on for {:?}", gave_up.elapsed());
        reader.release().await.unwrap();
        nothing_left(&server, "up").await;
    }
}

/// S-17, S-27: the announcement of a writer that is dead does not hide that a live one gave up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_announcement_does_not_keep_readers_asleep() {
    let (server, client, other) = world_of_two().await;
    let reader = client.rw_lock("d").read().await.unwrap();
    let writer = writing(&client, "d");
    announced(&server, "d", 1).await;
    server.client().cmd(&["ZADD", "redisson_rwlock_writers:{d}", "1000", "dead:1"]).await;
    let waiter = reading(&other, "d");
    listening(&server, "d", 2).await;
    sleep(ms(50)).await;
    // The live one is refreshed, and sweeps, every so often: between two of those.
    writer.abort();
    let gave_up = Instant::now();
    drop(got(waiter, PROMPTLY).await);
    assert!(gave_up.elapsed() < at_once(), "asleep for {:?}", gave_up.elapsed());
    reader.release().await.unwrap();
}

/// S-27: asking without waiting announces nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_does_not_wait_delays_no_reader() {
    let (server, client, other) = world_of_two().await;
    let reader = client.rw_lock("n").read().await.unwrap();
    assert!(other.rw_lock("n").try_write().await.unwrap().is_none());
    assert!(!server.client().exists("redisson_rwlock_writers:{n}").await);
    other.rw_lock("n").try_read().await.unwrap().expect("no writer waits").release().await.unwrap();
    reader.release().await.unwrap();
    nothing_left(&server, "n").await;
}
