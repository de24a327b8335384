//! Fencing counters that hold what no client of ours wrote (S-23, S-32).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::time::Duration;

use lock_runtime::{LockClient, LockError};
use lock_tests::{Proxy, RedisServer, eventually};
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(10);

const COUNTER: &str = "redisson_lock_token:{c}";

/// Text that is no number that can grow: a collision, at every attempt, with the value untouched.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_that_cannot_count_is_a_collision() {
    let server = RedisServer::start().await;
    let (client, raw) = (LockClient::connect(&server.url()).await.unwrap(), server.client());
    for value in [
        "inf",
        "nan",
        "-5",
        "+5",
        "1e3",
        "0x10",
        "5.0",
        " 5",
        "5\n",
        "",
        // More digits than the server can add to, or than a counter comes to in 30 000 years.
        "1000000000000000000",
        "9223372036854775807",
        "18446744073709551616",
        // The server takes no number with a leading zero, and the first is ahead of the clock.
        "099999999999999999",
        "00",
    ] {
        raw.cmd(&["SET", COUNTER, value]).await;
        for _ in 0..2 {
            let error = client.mutex("c").lock().await.unwrap_err();
            let LockError::KeyCollision { found, .. } = &error else {
                panic!("{value:?}: {error:?}")
            };
            assert_eq!(found, "the fencing counter is not a number", "{value:?}");
            assert_eq!(raw.get::<String>(&["GET", COUNTER]).await, value, "overwritten");
            assert!(!raw.exists("c").await, "{value:?}: a lock was left without a token");
        }
    }
    assert!(raw.del(COUNTER).await);
    client.mutex("c").lock().await.unwrap().release().await.unwrap();
}

/// Another type of value: the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_type_is_a_collision() {
    let server = RedisServer::start().await;
    let (client, raw) = (LockClient::connect(&server.url()).await.unwrap(), server.client());
    for words in [
        ["HSET", COUNTER, "field", "1"].as_slice(),
        &["RPUSH", COUNTER, "1"],
        &["SADD", COUNTER, "1"],
        &["ZADD", COUNTER, "1", "m"],
    ] {
        raw.cmd(words).await;
        let before: Vec<u8> = raw.get(&["DUMP", COUNTER]).await;
        let error = client.mutex("c").lock().await.unwrap_err();
        assert!(matches!(error, LockError::KeyCollision { .. }), "{words:?}: {error:?}");
        assert_eq!(raw.get::<Vec<u8>>(&["DUMP", COUNTER]).await, before, "{words:?}: changed");
        assert!(!raw.exists("c").await, "{words:?}: a lock was left without a token");
        assert!(raw.del(COUNTER).await);
    }
    client.mutex("c").lock().await.unwrap().release().await.unwrap();
}

/// Numbers behind the clock or ahead of it, up to the last that can grow: tokens strictly above.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_number_is_counted_on_from() {
    let server = RedisServer::start().await;
    let (client, raw) = (LockClient::connect(&server.url()).await.unwrap(), server.client());
    let beyond_doubles = (1 << 53) + 1;
    for value in [0, 1, 999, beyond_doubles, 100_000_000_000_000_000, 999_999_999_999_999_990] {
        raw.cmd(&["SET", COUNTER, &u64::to_string(&value)]).await;
        let mut last = value;
        for _ in 0..3 {
            let guard = client.mutex("c").lock().await.unwrap();
            let token = guard.token().get();
            assert!(token > last, "{token} after {last}");
            last = token;
            guard.release().await.unwrap();
        }
        assert_eq!(raw.get::<u64>(&["GET", COUNTER]).await, last);
        assert!(!raw.exists("c").await);
    }
}

/// S-21: a counter that goes wrong between a grant that nobody heard of and the next attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_without_an_answer_is_undone_after_a_collision() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let builder = LockClient::builder().command_timeout(Duration::from_millis(500));
    let (client, raw) = (builder.connect(&proxy.url()).await.unwrap(), server.client());
    client.mutex("warm").lock().await.unwrap().release().await.unwrap();
    proxy.drop_next_reply_to(COUNTER);
    let mutex = client.mutex("c");
    let acquire = tokio::spawn(async move { mutex.lock().await.map(drop) });
    eventually(SOON, "it was granted", async || raw.exists("c").await).await;
    raw.cmd(&["SET", COUNTER, "words"]).await;
    let outcome = timeout(SOON, acquire).await.expect("hung").unwrap();
    assert!(matches!(outcome, Err(LockError::KeyCollision { .. })), "{outcome:?}");
    assert_eq!(proxy.replies_dropped(), 1);
    eventually(SOON, "the unheard grant is undone", async || !raw.exists("c").await).await;
    assert_eq!(raw.get::<String>(&["GET", COUNTER]).await, "words");
}
