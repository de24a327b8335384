//! Fencing counters that hold what no client of ours wrote (S-23, S-32).

use crate::prelude::*;

const HOUR: Duration = secs(60 * 60);

const COUNTER: &str = "redisson_lock_token:{c}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_that_cannot_count_is_a_collision() {
    let server = RedisServer::start().await;
    let (client, raw) = (connect(&server).await, server.client());
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
        raw.cmd(&["SET", COUNTER, value, "PX", "3600000"]).await;
        for _ in 0..2 {
            let error = client.mutex("c").lock().await.unwrap_err();
            let LockError::KeyCollision { found, .. } = &error else {
                panic!("{value:?}: {error:?}")
            };
            assert_eq!(found, "the fencing counter is not a number", "{value:?}");
            assert_eq!(raw.get::<String>(&["GET", COUNTER]).await, value, "overwritten");
            let hour = matches!(raw.pttl(COUNTER).await, Ttl::Left(left) if left <= HOUR);
            assert!(hour, "{value:?}: another end");
            assert!(!raw.exists("c").await, "{value:?}: a lock was left without a token");
        }
    }
    assert!(raw.del(COUNTER).await);
    client.mutex("c").lock().await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_type_is_a_collision() {
    let server = RedisServer::start().await;
    let (client, raw) = (connect(&server).await, server.client());
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_number_is_counted_on_from() {
    let server = RedisServer::start().await;
    let (client, raw) = (connect(&server).await, server.client());
    let (soon, beyond_doubles) = (soon(&raw).await, (1 << 53) + 1);
    for value in [
        0,
        1,
        999,
        soon,
        (1 << 53) - 2,
        beyond_doubles,
        100_000_000_000_000_000,
        999_999_999_999_999_990,
    ] {
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

/// S-21: a counter that goes wrong between a grant that no client heard of and the next attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_without_an_answer_is_undone_after_a_collision() {
    let (server, proxy) = proxied().await;
    let builder = LockClient::builder().command_timeout(ms(500));
    let (client, raw) = (builder.connect(&proxy.url()).await.unwrap(), server.client());
    client.mutex("warm").lock().await.unwrap().release().await.unwrap();
    proxy.drop_next_reply_to(COUNTER);
    let mutex = client.mutex("c");
    let acquire = lock_tests::spawn(async move { mutex.lock().await.map(drop) });
    soon!("it was granted", raw.exists("c").await);
    raw.cmd(&["SET", COUNTER, "words"]).await;
    let outcome = timeout(SOON, acquire).await.expect("hung").unwrap();
    assert!(matches!(outcome, Err(LockError::KeyCollision { .. })), "{outcome:?}");
    assert_eq!(proxy.replies_dropped(), 1);
    soon!("the unheard grant is undone", !raw.exists("c").await);
    assert_eq!(raw.get::<String>(&["GET", COUNTER]).await, "words");
}

/// Takes and frees each kind of lock, several at once among them; calls `check` with what it took and the
/// name of its counter.
async fn each_kind(
    raw: &RawClient,
    client: &LockClient,
    before: &[&str],
    check: impl AsyncFn(&str, &str, u64),
) {
    for (kind, _) in KINDS {
        let counter = format!("redisson_lock_token:{{{kind}}}");
        set(raw, &counter, before).await;
        let guard = take(client, kind, kind, LockOptions::default()).await.unwrap();
        check(kind, &counter, guard.token().get()).await;
        guard.release().await.unwrap();
    }
    let counters = ["a", "b"].map(|name| format!("redisson_lock_token:{{{name}}}"));
    for counter in &counters {
        set(raw, counter, before).await;
    }
    let guard = client.multi_lock(["a", "b"]).lock().await.unwrap();
    for counter in &counters {
        check("several", counter, guard.token().get()).await;
    }
    guard.release().await.unwrap();
}

async fn set(raw: &RawClient, counter: &str, value: &[&str]) {
    raw.cmd(&[&["SET", counter], value].concat()).await;
}

/// A value that is a minute ahead of the server's clock.
async fn soon(raw: &RawClient) -> u64 {
    (raw.time_millis().await + 60_000) * 1000
}

/// S-23: Redisson renews no expiry. A counter that it made would start again a day after our last hold, so it
/// keeps having none, also where it is ahead of the clock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_without_an_end_gets_none() {
    let server = RedisServer::start().await;
    let (client, raw) = (connect(&server).await, server.client());
    for value in [7, soon(&raw).await, 100_000_000_000_000_000] {
        each_kind(&raw, &client, &[&value.to_string()], async |kind, counter, token| {
            assert!(token > value);
            assert_eq!(raw.get::<u64>(&["GET", counter]).await, token, "{kind}");
            assert_eq!(raw.pttl(counter).await, Ttl::Forever, "{kind}, {value}");
        })
        .await;
    }
}

/// S-23: a counter with an end has it moved when it is used, at the latest 100 s after it was moved
/// before, and a new one gets one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_with_an_end_has_it_moved() {
    let server = RedisServer::start().await;
    let (client, raw) = (connect(&server).await, server.client());
    let is_moved = async |kind: &str, counter: &str, _: u64| {
        let left = raw.pttl(counter).await;
        assert!(matches!(left, Ttl::Left(left) if left > 23 * HOUR), "{kind}: {left:?}");
    };
    // Redisson's, ours of 100 s ago, and one that is ahead of the clock.
    let ours = (raw.time_millis().await - 101_000) * 1000;
    for value in [7, ours, 100_000_000_000_000_000] {
        each_kind(&raw, &client, &[&value.to_string(), "PX", "60000"], is_moved).await;
    }
    raw.cmd(&["FLUSHALL"]).await;
    let guard = client.mutex("new").lock().await.unwrap();
    is_moved("new", "redisson_lock_token:{new}", 0).await;
    guard.release().await.unwrap();
}

/// The last microsecond of the 100 seconds that the server's time is in, and stays in during a test.
async fn border(raw: &RawClient) -> u64 {
    loop {
        let (now, hundred) = (raw.time_millis().await * 1000, 100_000_000);
        let border = (now / hundred + 1) * hundred - 1;
        if border - now > 5_000_000 && border - now < 99_000_000 {
            return border;
        }
        sleep(ms(100)).await;
    }
}

/// S-23: the expiry is renewed by what goes beyond the 100 seconds, and not before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tokens_beyond_the_border_move_the_end() {
    let server = RedisServer::start().await;
    let (client, raw) = (connect(&server).await, server.client());
    let border = border(&raw).await;
    let set = async |value: u64| {
        raw.cmd(&["SET", COUNTER, &value.to_string(), "PX", "60000"]).await;
    };
    let is_moved = async || matches!(raw.pttl(COUNTER).await, Ttl::Left(left) if left > 23 * HOUR);
    // A counter that is ahead of the clock.
    set(border - 1).await;
    for (token, moved) in [(border, false), (border + 1, true)] {
        let guard = client.mutex("c").lock().await.unwrap();
        assert_eq!(guard.token().get(), token);
        guard.release().await.unwrap();
        assert_eq!(is_moved().await, moved, "{token}");
    }
    // One that is behind, and a block that begins with the clock and ends behind the border.
    set(border - 99_999_999).await;
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let owner = OwnerId::new(&client_id(), 1, 1);
    let target = Target::mutex(LockKey::new("c").unwrap());
    let mut request = AcquireRequest::new(target, owner, SOON, SOON);
    request.tokens = 100_000_000;
    assert!(matches!(store.acquire(request).await, Ok(AcquireReply::Granted(_))));
    assert!(is_moved().await);
}

/// S-23: how many commands on the counter an acquire costs, by where it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_that_is_a_little_ahead_costs_one_more_command() {
    let server = RedisServer::start().await;
    let (client, raw) = (connect(&server).await, server.client());
    // First, because it may wait until the next 100 seconds.
    let ahead = border(&raw).await - 2;
    client.mutex("c").lock().await.unwrap().release().await.unwrap();
    for (value, sets) in [(None, 1), (Some(ahead), 2)] {
        if let Some(value) = value {
            raw.cmd(&["SET", COUNTER, &u64::to_string(&value), "KEEPTTL"]).await;
        }
        server.reset_stats().await;
        client.mutex("c").lock().await.unwrap().release().await.unwrap();
        let calls = server.command_calls().await;
        let calls =
            ["set", "incrby", "get", "pexpire"].map(|name| calls.get(name).copied().unwrap_or(0));
        // The lock itself has an expiry.
        assert_eq!(calls, [sets, 0, 0, 1]);
    }
}

/// S-23, S-29: what other servers of a quorum handed out raises a counter, and changes neither whether it
/// ends nor what is no counter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_raised_counter_keeps_its_end_and_text_is_left_alone() {
    let server = RedisServer::start().await;
    let (store, raw) = (RedisStore::connect(&server.url()).await.unwrap(), server.client());
    let target = Target::mutex(LockKey::new("c").unwrap());
    let raise = async |token| store.raise_token(&target, FencingToken::new(token), SOON).await;
    raw.cmd(&["SET", COUNTER, "7"]).await;
    raise(1000).await.unwrap();
    assert_eq!(raw.get::<u64>(&["GET", COUNTER]).await, 1000);
    assert_eq!(raw.pttl(COUNTER).await, Ttl::Forever);
    raw.cmd(&["SET", COUNTER, "7", "PX", "60000"]).await;
    raise(1000).await.unwrap();
    let left = raw.pttl(COUNTER).await;
    assert!(matches!(left, Ttl::Left(left) if left > 23 * HOUR), "{left:?}");
    for text in ["word", "", "-5", "007"] {
        raw.cmd(&["SET", COUNTER, text]).await;
        let error = raise(10_000).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::WrongType, "{text:?}: {error}");
        assert_eq!(raw.get::<String>(&["GET", COUNTER]).await, text, "overwritten");
    }
}
