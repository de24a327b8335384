//! Redis restarted, stopped, full, flushed, wrong; the network cut, slow, lossy.

use crate::prelude::*;

/// A task that waits for the lock, and is waiting by the time this returns.
async fn waiter(
    client: &LockClient,
    server: &RedisServer,
    name: &str,
) -> tokio::task::JoinHandle<Result<LockGuard, LockError>> {
    let mutex = client.mutex(name);
    let waiter = lock_tests::spawn(async move { mutex.lock().await });
    let channel = format!("redisson_lock__channel:{{{name}}}");
    soon!("the waiter listens", server.pubsub_numsub(&channel).await > 0);
    waiter
}

/// S-33: each wrong address or password is one clear error, at once, and shows no password.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_start_fails_at_once_and_clearly() {
    let server = RedisServer::builder().password("right-one").start().await;
    let cases = [
        (server.url_with_password(Some("wrong-one")), StoreErrorKind::Denied, "password"),
        (server.url_with_password(None), StoreErrorKind::Denied, "password"),
        ("redis://127.0.0.1:1".to_owned(), StoreErrorKind::Unavailable, "cannot be reached"),
        ("http://user:wrong-one@host".to_owned(), StoreErrorKind::Config, "redis://host:port"),
        ("nonsense".to_owned(), StoreErrorKind::Config, "cannot be used"),
        ("redis://:wrong-one#x@localhost".to_owned(), StoreErrorKind::Config, "cannot be used"),
        ("unix:///no/such/socket".to_owned(), StoreErrorKind::Unavailable, "cannot be reached"),
    ];
    for (url, kind, says) in cases {
        let start = Instant::now();
        let error = LockClient::connect(&url).await.unwrap_err();
        assert!(start.elapsed() < patience(secs(3)), "{url}: {:?}", start.elapsed());
        assert_eq!(store_kind(&error), Some(kind), "{url}: {error:?}");
        let text = error.to_string();
        assert!(text.contains(says), "{url}: {text}");
        let source = error.source().map(ToString::to_string);
        assert_ne!(source.as_ref(), Some(&text), "{url}: told twice");
        let everything = format!("{text} {error:?} {source:?}");
        assert!(!everything.contains("wrong-one"), "the password shows: {everything}");
    }
    connect(&server).await.mutex("ok").lock().await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unix_sockets_and_databases_work() {
    let server = RedisServer::builder().unix_socket().start().await;
    let guard = connect(&server).await.mutex("unix").lock().await.unwrap();
    assert!(server.client().exists("unix").await);
    guard.release().await.unwrap();
    let server = RedisServer::start().await;
    let client = LockClient::connect(&format!("{}/3", server.url())).await.unwrap();
    let guard = client.mutex("db").lock().await.unwrap();
    assert!(!server.client().exists("db").await);
    guard.release().await.unwrap();
}

/// S-12, S-13: the body is cut off at the deadline when nothing answers any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_black_hole_cuts_the_body_off_at_the_deadline() {
    let (_server, proxy, client) = far_world().await;
    let lease = secs(1);
    for (name, options) in [("fixed", fixed(lease)), ("watched", watched(lease))] {
        let guard = client.mutex(name).with(options).lock().await.unwrap();
        proxy.black_hole();
        let (start, left) = (Instant::now(), guard.remaining());
        let outcome = timeout(SOON, guard.run(std::future::pending::<()>())).await.expect("ran on");
        let ran = start.elapsed();
        let cause = match outcome {
            Err(LockError::Lost { cause, .. }) => cause,
            other => panic!("{other:?}"),
        };
        assert_eq!((cause, guard.remaining()), (LossCause::Deadline, Duration::ZERO));
        assert!(ran + ms(3) >= left, "cut off {:?} early", left - ran);
        assert!(ran < left + ms(400), "cut off {:?} late", ran - left);
        drop(guard);
        proxy.pass();
        let client = client.clone();
        soon!("works again", client.mutex("again").try_lock().await.is_ok());
    }
}

/// S-9: an outage shorter than the lease is ridden out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_outage_loses_nothing() {
    let (_server, proxy, client) = far_world().await;
    let guard = client.mutex("o").with(watched(secs(3))).lock().await.unwrap();
    proxy.black_hole();
    tokio::time::sleep(ms(1_500)).await;
    proxy.pass();
    let until = Instant::now() + secs(4);
    while Instant::now() < until {
        assert!(!guard.is_lost(), "lost with {:?} left", guard.remaining());
        tokio::time::sleep(ms(50)).await;
    }
    guard.release().await.unwrap();
}

/// S-11: the clock that leases are measured on is the one that keeps counting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspend_past_a_fixed_lease_is_a_loss() {
    let server = RedisServer::start().await;
    let clock = Clock::boot_time();
    let client = LockClient::builder().clock(clock.clone()).connect(&server.url()).await.unwrap();
    let guard = client.mutex("z").with(fixed(secs(60))).lock().await.unwrap();
    let body = async {
        clock.advance(secs(61));
        tokio::task::yield_now().await;
        panic!("polled after the lease");
    };
    let outcome = timeout(SOON, guard.run(body)).await.expect("not woken");
    assert!(matches!(outcome, Err(LockError::Lost { .. })));
}

/// S-15: the pub/sub connection is killed at the worst moment; the waiter has the lock within the
/// poll cap all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_subscription_does_not_strand_the_waiter() {
    let server = RedisServer::start().await;
    let holder = connect(&server).await;
    let cap = secs(1);
    let client = LockClient::builder().poll_cap(cap).connect(&server.url()).await.unwrap();
    for _ in 0..5 {
        let guard = holder.mutex("p").lock().await.unwrap();
        let waiter = waiter(&client, &server, "p").await;
        assert!(server.client_kill(ClientType::PubSub).await > 0);
        guard.release().await.unwrap();
        // The cap is jittered by a fifth.
        let bound = cap.mul_f64(1.2) + ms(200);
        let guard = timeout(bound, waiter).await.expect("stranded").unwrap().unwrap();
        guard.release().await.unwrap();
    }
}

/// S-15: with notices gone altogether, progress goes on at the poll cap.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_any_notice_polling_goes_on() {
    let server = RedisServer::start().await;
    let holder = connect(&server).await;
    let cap = ms(500);
    let client = LockClient::builder().poll_cap(cap).connect(&server.url()).await.unwrap();
    let guard = holder.mutex("n").lock().await.unwrap();
    let waiter = waiter(&client, &server, "n").await;
    // The key goes without a message, as at an eviction or by an operator's hand.
    assert!(server.client().del("n").await);
    timeout(cap * 3, waiter).await.expect("stranded").unwrap().unwrap().release().await.unwrap();
    drop(guard);
}

/// S-15, S-33: restarted empty while a task waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_during_a_wait_is_survived() {
    let server = RedisServer::start().await;
    let (holder, client) = (connect(&server).await, connect(&server).await);
    let guard = holder.mutex("w").lock().await.unwrap();
    let token = guard.token();
    let waiter = waiter(&client, &server, "w").await;
    server.restart().await;
    let next = timeout(SOON, waiter).await.expect("stranded").unwrap().unwrap();
    assert!(next.token() > token, "tokens went back with the data");
    // The old holder finds out at its next renewal or release, and does no harm.
    assert!(matches!(guard.release().await, Err(LockError::Lost { .. })));
    assert!(!next.is_lost());
    next.release().await.unwrap();
}

/// S-9, S-12: restarted empty during a hold, the loss is noticed by the next renewal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_during_a_hold_is_a_loss() {
    let (server, client) = world().await;
    let guard = client.mutex("h").with(watched(secs(2))).lock().await.unwrap();
    server.restart().await;
    let lost = timeout(secs(3), guard.lost()).await.expect("not noticed");
    assert!(lost.is_lost());
    drop(guard);
    let _next = timeout(SOON, client.mutex("h").lock()).await.expect("stranded").unwrap();
}

/// S-33: NOSCRIPT at any step is healed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushed_scripts_are_loaded_again() {
    let (server, client) = world().await;
    let raw = server.client();
    let flush = async || {
        raw.cmd(&["SCRIPT", "FLUSH"]).await;
    };
    flush().await;
    let options = watched(ms(600));
    let guard = client.mutex("f").with(options).lock().await.unwrap();
    flush().await;
    tokio::time::sleep(ms(900)).await;
    assert!(!guard.is_lost(), "the renewal did not survive a flush");
    flush().await;
    guard.release().await.unwrap();
    assert!(!raw.exists("f").await);
}

/// S-19: out of memory, taking fails with a clear error; keeping and giving back work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn out_of_memory_keeps_and_frees() {
    let (server, client) = world().await;
    let raw = server.client();
    let guard = client.mutex("m").with(watched(ms(900))).lock().await.unwrap();
    raw.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let error = client.mutex("other").lock().await.unwrap_err();
    assert_eq!(store_kind(&error), Some(StoreErrorKind::OutOfMemory), "{error:?}");
    assert!(!raw.exists("other").await);
    tokio::time::sleep(ms(1_400)).await;
    assert!(!guard.is_lost(), "the renewal needed memory");
    guard.release().await.unwrap();
    assert!(!raw.exists("m").await);
}

/// S-32: another type at the name, or another kind of lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_value_is_a_collision() {
    let (server, client) = world().await;
    let raw = server.client();
    raw.cmd(&["SADD", "set", "x"]).await;
    raw.cmd(&["SET", "string", "x", "NX"]).await;
    let _fair = client.fair_mutex("fair").lock().await.unwrap();
    raw.cmd(&["HSET", "rw", "mode", "read", "peer:1", "1"]).await;
    raw.cmd(&["SET", "redisson_lock_token:{fence}", "words"]).await;
    for (name, found) in [
        ("set", "the key holds a set"),
        ("rw", "the key holds a hash that is no lock"),
        ("string", "the key holds a string, as `SET NX` leaves"),
        ("fair", "the key holds a fair mutex"),
        ("fence", "the fencing counter is not a number"),
    ] {
        let error = client.mutex(name).lock().await.unwrap_err();
        assert!(
            matches!(&error, LockError::KeyCollision { found: f, .. } if f.as_str() == found),
            "{error:?}"
        );
    }
    let left: String = raw.get(&["GET", "redisson_lock_token:{fence}"]).await;
    assert_eq!(left, "words", "another program's value was overwritten");
    assert!(!raw.exists("fence").await, "a lock was left without a token");
}

/// S-21, S-22: the reply to an acquire is lost after it took effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_acquire_reply_is_recognised() {
    let (server, proxy, client) = far_world().await;
    client.mutex("warm").lock().await.unwrap().release().await.unwrap();
    proxy.drop_next_reply_to("lost-acquire");
    let start = Instant::now();
    let guard = timeout(SOON, client.mutex("lost-acquire").lock()).await.expect("hung").unwrap();
    assert_eq!(proxy.replies_dropped(), 1);
    assert!(start.elapsed() < patience(secs(5)), "waited for its own leftover");
    let hash = server.client().hgetall("lost-acquire").await;
    assert!(hash.values().eq(["1"]), "{hash:?}");
    guard.release().await.unwrap();
    assert!(!server.client().exists("lost-acquire").await);
}

/// S-19: the reply to a release is lost after it took effect: no error, since it was in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_release_reply_is_no_error() {
    let (server, proxy, client) = far_world().await;
    let guard = client.mutex("lost-release").lock().await.unwrap();
    proxy.drop_next_reply_to("lost-release");
    timeout(SOON, guard.release()).await.expect("hung").unwrap();
    assert_eq!(proxy.replies_dropped(), 1);
    assert!(!server.client().exists("lost-release").await);
}

/// S-22: the same request twice is one hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_duplicated_acquire_counts_once() {
    let (server, proxy, client) = far_world().await;
    client.mutex("warm").lock().await.unwrap().release().await.unwrap();
    proxy.duplicate_next_request_with("twice");
    let guard = client.mutex("twice").lock().await.unwrap();
    soon!("sent twice", proxy.requests_duplicated() == 1);
    let hash = server.client().hgetall("twice").await;
    assert!(hash.values().eq(["1"]), "{hash:?}");
    drop(guard);
    soon!("it is free", !server.client().exists("twice").await);
}

/// S-8: an answer that comes after its own deadline is no grant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_comes_too_late_is_given_back() {
    let (server, proxy, client) = far_world().await;
    let raw = server.client();
    let granted = async || raw.get::<u64>(&["GET", "redisson_lock_token:{late}"]).await;
    client.mutex("late").lock().await.unwrap().release().await.unwrap();
    let before = granted().await;
    proxy.delay_replies(ms(400));
    let limit = ms(900);
    let options = fixed(ms(150)).wait(limit);
    let error = client.mutex("late").with(options).lock().await.unwrap_err();
    assert!(error.is_timeout() || store_kind(&error).is_some(), "{error:?}");
    assert!(granted().await > before, "the server granted nothing: there was no late answer");
    proxy.pass();
    soon!("it is free", !server.client().exists("late").await);
}

/// S-33: an unreachable store ends even an endless wait, and is never taken for a busy lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patience_ends_an_endless_wait() {
    let server = RedisServer::start().await;
    let patience = secs(1);
    let client =
        LockClient::builder().store_patience(patience).connect(&server.url()).await.unwrap();
    server.kill();
    let start = Instant::now();
    let error = timeout(SOON, client.mutex("x").lock()).await.expect("waited on").unwrap_err();
    assert!(store_kind(&error).is_some_and(StoreErrorKind::is_transient), "{error:?}");
    assert!(start.elapsed() >= patience && error.is_retryable());
    let error = client.mutex("x").try_lock().await.unwrap_err();
    assert!(store_kind(&error).is_some(), "{error:?}");
    server.restart().await;
    soon!("it works again", client.mutex("x").try_lock().await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_is_waited_out() {
    let (server, client) = world().await;
    let guard = client.mutex("i").lock().await.unwrap();
    server.pause();
    let limit = waits(ms(700));
    let start = Instant::now();
    let error = client.mutex("j").with(limit).lock().await.unwrap_err();
    assert!(start.elapsed() < patience(secs(3)), "{:?}", start.elapsed());
    assert!(matches!(error, LockError::Store(_)), "{error:?}");
    server.resume();
    soon!("it works again", client.mutex("j").try_lock().await.is_ok());
    timeout(SOON, guard.release()).await.expect("hung").unwrap();
}

/// S-20: drops while the network is down are made good when it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guards_dropped_in_an_outage_are_released_after_it() {
    let (server, proxy, client) = far_world().await;
    let guard = client.mutex("d").lock().await.unwrap();
    proxy.black_hole();
    drop(guard);
    let at_once = waits(lock_runtime::Wait::None);
    let error = client.mutex("d").with(at_once).lock().await.unwrap_err();
    let busy = matches!(error, LockError::Busy { reason: BusyReason::Held, .. });
    assert!(busy || store_kind(&error).is_some(), "{error:?}");
    proxy.pass();
    let left = secs(8);
    eventually(left, "released long before its lease", async || !server.client().exists("d").await)
        .await;
}
