//! Fencing counters that hold what no client of ours wrote (S-23, S-32).

use crate::prelude::*;

const HOUR: Duration = secs(60 * 60);

const COUNTER: &str = "redisson_lock_token:{c}";

/// More than an hour's counter has left unless its end was moved.
fn is_moved(left: Ttl) -> bool {
    matches!(left, Ttl::Left(left) if left > 23 * HOUR)
}

async fn set(raw: &RawClient, value: impl ToString, more: &[&str]) {
    raw.cmd(&[&["SET", COUNTER, &value.to_string()], more].concat()).await;
}

/// Acquires and releases the mutex of that counter; its token.
async fn next(client: &LockClient) -> u64 {
    let guard = client.mutex("c").lock().await.unwrap();
    let token = guard.token().get();
    guard.release().await.unwrap();
    token
}

// Text that cannot count and values of another type are left as they are, with their end.
test_with!(what_cannot_count_is_a_collision, world(), async |(server, client)| {
    let raw = server.client();
    let texts = ["inf", "nan", "-5", "+5", "1e3", "0x10", "5.0", " 5", "5\n", ""].into_iter();
    // More digits than the server can add to, or than a counter comes to in 30 000 years.
    let long = ["1000000000000000000", "9223372036854775807", "18446744073709551616"];
    // The server takes no number with a leading zero, and the first is ahead of the clock.
    let zeros = ["099999999999999999", "00"];
    let texts = texts.chain(long).chain(zeros).map(|text| vec!["SET", COUNTER, text]);
    let types = [
        vec!["HSET", COUNTER, "field", "1"],
        vec!["RPUSH", COUNTER, "1"],
        vec!["SADD", COUNTER, "1"],
        vec!["ZADD", COUNTER, "1", "m"],
    ];
    for words in texts.chain(types) {
        raw.cmd(&words).await;
        raw.cmd(&["PEXPIRE", COUNTER, "3600000"]).await;
        let before: Vec<u8> = raw.get(&["DUMP", COUNTER]).await;
        for _ in 0..2 {
            let error = client.mutex("c").lock().await.unwrap_err();
            assert!(matches!(error, LockError::KeyCollision { .. }), "{words:?}: {error:?}");
            assert_eq!(raw.get::<Vec<u8>>(&["DUMP", COUNTER]).await, before, "{words:?}: changed");
            assert!(left(raw.pttl(COUNTER).await) <= HOUR, "{words:?}: another end");
            assert!(!raw.exists("c").await, "{words:?}: a lock was left without a token");
        }
        assert!(raw.del(COUNTER).await);
    }
    next(&client).await;
    for (kind, _) in KINDS {
        raw.cmd(&["SET", &format!("redisson_lock_token:{{{kind}}}"), "words"]).await;
        let error = take_named(&client, kind, LockOptions::default()).await.unwrap_err();
        assert!(matches!(error, LockError::KeyCollision { .. }), "{kind}: {error:?}");
        assert!(!raw.exists(kind).await, "{kind}: a lock was left without a token");
    }
});

test_with!(every_number_is_counted_on_from, world(), async |(server, client)| {
    let raw = server.client();
    let (ahead, beyond_doubles) = (ahead(&raw).await, (1 << 53) + 1);
    let far = [100_000_000_000_000_000, 999_999_999_999_999_990];
    let near = [0, 1, 999, ahead, (1 << 53) - 2, beyond_doubles];
    for value in near.into_iter().chain(far) {
        set(&raw, value, &[]).await;
        let mut last: u64 = value;
        for _ in 0..3 {
            let token = next(&client).await;
            assert!(token > last, "{token} after {last}");
            last = token;
        }
        assert_eq!(raw.get::<u64>(&["GET", COUNTER]).await, last);
        assert!(!raw.exists("c").await);
    }
});

/// S-21: a counter that goes wrong between a grant that no client heard of and the next attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_without_an_answer_is_undone_after_a_collision() {
    let (server, proxy, client) = far_world_with(ms(500)).await;
    let raw = server.client();
    client.mutex("warm").lock().await.unwrap().release().await.unwrap();
    proxy.drop_next_reply_to(COUNTER);
    let acquire = lock_tests::spawn(client.mutex("c").lock());
    soon!("it was granted", raw.exists("c").await);
    set(&raw, "words", &[]).await;
    let outcome = timeout(SOON, acquire).await.expect("hung").unwrap();
    assert!(matches!(outcome, Err(LockError::KeyCollision { .. })), "{outcome:?}");
    assert_eq!(proxy.replies_dropped(), 1);
    soon!("the unheard grant is undone", !raw.exists("c").await);
    assert_eq!(raw.get::<String>(&["GET", COUNTER]).await, "words");
}

/// Takes and frees each kind of lock, several at once among them, whose counters were set so. Calls `check` with the kind, the
/// counter's value, its end, and the token.
async fn each_kind(
    raw: &RawClient,
    client: &LockClient,
    before: &[&str],
    check: impl Fn(&str, u64, Ttl, u64),
) {
    let kinds = KINDS.map(|(kind, _)| (kind, vec![kind]));
    for (kind, names) in kinds.into_iter().chain([("several", vec!["a", "b"])]) {
        let counters: Vec<_> =
            names.iter().map(|name| format!("redisson_lock_token:{{{name}}}")).collect();
        for counter in &counters {
            raw.cmd(&[&["SET", counter], before].concat()).await;
        }
        let guard = match kind {
            "several" => client.multi_lock(names).lock().await.unwrap(),
            _ => take_named(client, kind, LockOptions::default()).await.unwrap(),
        };
        for counter in &counters {
            let (value, end) = (raw.get(&["GET", counter]).await, raw.pttl(counter).await);
            check(kind, value, end, guard.token().get());
        }
        guard.release().await.unwrap();
    }
}

/// A value that is a minute ahead of the server's clock.
async fn ahead(raw: &RawClient) -> u64 {
    (raw.time_millis().await + 60_000) * 1000
}

// S-23: Redisson renews no expiry. A counter that it made would start again a day after our last hold, so it
// keeps having none, also where it is ahead of the clock. One with an end has it moved when it is used, at the latest 100 s after
// it was moved before, and a new one gets one.
test_with!(a_counter_has_its_end_moved_if_it_has_one, world(), async |(server, client)| {
    let raw = server.client();
    let far = 100_000_000_000_000_000;
    for value in [7, ahead(&raw).await, far] {
        each_kind(&raw, &client, &[&value.to_string()], |kind, now, end, token| {
            assert!(token > value && now == token && end == Ttl::Forever, "{kind}, {value}");
        })
        .await;
    }
    // Redisson's, ours of 100 s ago, and one that is ahead of the clock.
    let ours = (raw.time_millis().await - 101_000) * 1000;
    for value in [7, ours, far] {
        each_kind(&raw, &client, &[&value.to_string(), "PX", "60000"], |kind, _, end, _| {
            assert!(is_moved(end), "{kind}, {value}: {end:?}");
        })
        .await;
    }
    raw.cmd(&["FLUSHALL"]).await;
    next(&client).await;
    assert!(is_moved(raw.pttl(COUNTER).await));
});

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

// S-23: the expiry is renewed by what goes beyond the 100 seconds, and not before.
test_with!(the_tokens_beyond_the_border_move_the_end, world(), async |(server, client)| {
    let raw = server.client();
    let (border, minute) = (border(&raw).await, ["PX", "60000"]);
    // A counter that is ahead of the clock.
    set(&raw, border - 1, &minute).await;
    for (token, moved) in [(border, false), (border + 1, true)] {
        assert_eq!(next(&client).await, token);
        assert_eq!(is_moved(raw.pttl(COUNTER).await), moved, "{token}");
    }
    // One that is behind, and a block that begins with the clock and ends behind the border.
    set(&raw, border - 99_999_999, &minute).await;
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let target = Target::mutex(LockKey::new("c").unwrap());
    let owner = OwnerId::new(&client_id(), 1, 1);
    let mut request = AcquireRequest::new(target, owner, SOON, SOON);
    request.tokens = 100_000_000;
    assert!(matches!(store.acquire(request).await, Ok(AcquireReply::Granted(_))));
    assert!(is_moved(raw.pttl(COUNTER).await));
});

/// S-23: how many commands on the counter an acquire costs, by where it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_that_is_a_little_ahead_costs_one_more_command() {
    let (server, client) = world().await;
    let raw = server.client();
    // First, because it may wait until the next 100 seconds.
    let ahead = border(&raw).await - 2;
    next(&client).await;
    for (value, sets) in [(None, 1), (Some(ahead), 2)] {
        if let Some(value) = value {
            set(&raw, value, &["KEEPTTL"]).await;
        }
        server.reset_stats().await;
        next(&client).await;
        let calls = server.command_calls().await;
        let calls = ["set", "incrby", "get", "pexpire"].map(|name| calls.get(name).copied());
        // The lock itself has an expiry.
        assert_eq!(calls.map(Option::unwrap_or_default), [sets, 0, 0, 1]);
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
    for (more, ends) in [(&[][..], false), (&["PX", "60000"], true)] {
        set(&raw, 7, more).await;
        raise(1000).await.unwrap();
        assert_eq!(raw.get::<u64>(&["GET", COUNTER]).await, 1000);
        let end = raw.pttl(COUNTER).await;
        assert!(if ends { is_moved(end) } else { end == Ttl::Forever }, "{end:?}");
    }
    for text in ["word", "", "-5", "007"] {
        set(&raw, text, &[]).await;
        let error = raise(10_000).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::WrongType, "{text:?}: {error}");
        assert_eq!(raw.get::<String>(&["GET", COUNTER]).await, text, "overwritten");
    }
}
