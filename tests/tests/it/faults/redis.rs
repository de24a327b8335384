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
