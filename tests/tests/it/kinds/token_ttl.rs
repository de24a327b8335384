//! How long fencing counters are kept: an option of the client, for names without end.

use crate::prelude::*;

const HOUR: u64 = 60 * 60;

/// Takes each kind of lock of that client, and lets it go.
async fn take_each(locks: &LockClient) {
    let guards = [
        locks.mutex("mutex").lock().await,
        locks.fair_mutex("fair").lock().await,
        locks.rw_lock("read").read().await,
        locks.rw_lock("write").write().await,
        locks.multi_lock(["one", "two"]).lock().await,
        MultiLock::of([locks.fair_mutex("mixed").into(), locks.mutex("other").into()]).lock().await,
        locks.semaphore("permits", 1).acquire().await,
    ];
    release_all(guards.into_iter().map(Result::unwrap)).await;
}

const NAMES: [&str; 9] =
    ["mutex", "fair", "read", "write", "permits", "one", "two", "mixed", "other"];

/// Whether each counter ends within that many seconds, and not much sooner.
async fn counters_end_in(server: &RedisServer, seconds: u64) {
    for name in NAMES {
        let counter = format!("redisson_lock_token:{{{name}}}");
        let left = left(server.client().pttl(&counter).await).as_secs();
        assert!((seconds - 120..=seconds).contains(&left), "{name}: {left} s of {seconds} s");
    }
}

#[tokio::test]
async fn counters_are_kept_as_long_as_the_client_says() {
    let config = LockConfig::from_toml("[lock]\ntoken_ttl = '5h'").unwrap();
    for (builder, seconds) in [
        (LockClient::builder(), 24 * HOUR),
        (LockClient::builder().token_ttl(secs(HOUR)), HOUR),
        (LockClient::builder().config(config), 5 * HOUR),
    ] {
        let server = RedisServer::start().await;
        let locks = builder.connect(&server.url()).await.unwrap();
        take_each(&locks).await;
        counters_end_in(&server, seconds).await;
        // Not before the hold that it counts.
        let _guard = locks.mutex("long").with(fixed(secs(7 * HOUR))).lock().await.unwrap();
        let left = left(server.client().pttl("redisson_lock_token:{long}").await).as_secs();
        let expected = seconds.max(7 * HOUR);
        assert!((expected - 120..=expected).contains(&left), "{left} of {expected}");
    }
}

#[test]
fn less_than_an_hour_is_refused() {
    for (seconds, works) in
        [(HOUR - 1, false), (HOUR, true), (720 * HOUR, true), (721 * HOUR, false)]
    {
        let client = LockClient::builder().token_ttl(secs(seconds)).in_memory();
        assert_eq!(client.is_ok(), works, "{seconds}");
        let config = LockConfig::from_toml(&format!("[lock]\ntoken_ttl = '{seconds}s'"));
        assert_eq!(config.is_ok(), works, "{seconds}");
        if let Err(error) = config {
            assert!(error.to_string().starts_with("lock.token_ttl: "), "{error}");
        }
    }
}
