//! A store that fails while readers share (S-9, S-21, S-33).

use crate::kinds::rw::*;

async fn far_world() -> (RedisServer, Proxy, LockClient) {
    let (server, proxy) = proxied().await;
    let builder = LockClient::builder().command_timeout(ms(300)).store_patience(secs(1));
    let client = builder.connect(&proxy.url()).await.unwrap();
    (server, proxy, client)
}

/// S-33: each reader has its own patience; they do not lose it one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_lose_patience_side_by_side() {
    let (server, proxy, client) = far_world().await;
    let hold = client.rw_lock("p").read().await.unwrap();
    sleep(ms(20)).await;
    proxy.stall();
    let asked = Instant::now();
    let waiters: Vec<_> = (0..40).map(|_| reading(&client, "p")).collect();
    for waiter in waiters {
        let result = tokio::time::timeout(PROMPTLY, waiter).await.expect("still waiting").unwrap();
        assert!(matches!(result, Err(LockError::Store(_))), "{result:?}");
    }
    assert!(asked.elapsed() < patience(ms(3500)), "took {:?}", asked.elapsed());
    proxy.pass();
    assert!(!hold.is_lost());
    // And it goes on as if nothing had happened.
    got(reading(&client, "p"), PROMPTLY).await.release().await.unwrap();
    hold.release().await.unwrap();
    nothing_left(&server, "p").await;
}

/// S-21, S-22, S-27: the reply to a reader that asks whether it may join is lost; it gets the lock, and leaves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_to_one_who_joins_leaves_nothing() {
    let (server, proxy, client) = far_world().await;
    let reader = got(reading(&client, "join"), PROMPTLY).await;
    sleep(ms(20)).await;
    proxy.drop_next_reply_to("join");
    let joined = got(reading(&client, "join"), at_once()).await;
    assert_eq!(proxy.replies_dropped(), 1);
    joined.release().await.unwrap();
    reader.release().await.unwrap();
    nothing_left(&server, "join").await;
}

/// S-17, S-20: a writer, or a waiter of a fair mutex, that gives up while it is cut off leaves its place once the server answers
/// again, also when the place lasts longer than the lease that it asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_gave_up_while_cut_off_leaves_its_place() {
    let (server, proxy) = proxied().await;
    let builder = LockClient::builder().waiter_lease(secs(3600)).command_timeout(ms(200));
    let (client, near) = (builder.connect(&proxy.url()).await.unwrap(), connect(&server).await);
    let lease = ms(300);
    for (kind, beside, places) in [
        ("write", "read", ["ZCARD", "redisson_rwlock_writers:{write}"]),
        ("fair", "fair", ["LLEN", "redisson_lock_queue:{fair}"]),
    ] {
        let held = take(&near, beside, kind, LockOptions::default()).await.unwrap();
        let waiting = lock_tests::spawn({
            let client = client.clone();
            async move { take(&client, kind, kind, fixed(lease)).await }
        });
        let waits = async || server.client().get::<u64>(&places).await;
        soon!("it has a place", waits().await == 1);
        proxy.black_hole();
        waiting.abort();
        // By then a release that counts the lease only is given up: with the next attempt, whenever that comes.
        sleep(lease * 4 / 3).await;
        assert_eq!(waits().await, 1, "it was not cut off");
        proxy.pass();
        soon!("it has left", waits().await == 0);
        if kind == "write" {
            got(reading(&near, kind), at_once()).await.release().await.unwrap();
        }
        held.release().await.unwrap();
        nothing_left(&server, kind).await;
    }
}
