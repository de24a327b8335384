//! A lock on a majority of servers (S-29): what it does while all goes well, and how it starts.
//! `contract` holds it to all that a mutex promises.

use crate::prelude::*;
use crate::support::quorum::*;

/// S-23, S-29: all servers get the lock, and a majority knows its token before it counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_on_all_servers_and_then_on_none() {
    let servers = servers(5).await;
    // A server that answers later than this is not asked again, and would stay without the hold.
    let builder = LockClient::builder().server_timeout(SOON);
    let urls = servers.iter().map(RedisServer::url);
    let quorum = builder.connect_quorum(urls, RestartGuard::Off).await.unwrap();
    for _ in 0..10 {
        let guard = quorum.mutex("q").lock().await.unwrap();
        let counters = join_all(servers.iter().map(async |server| {
            let counter = server.client();
            counter.get::<Option<u64>>(&["GET", "redisson_lock_token:{q}"]).await.unwrap_or(0)
        }));
        let known = counters.await.into_iter().filter(|last| *last >= guard.token().get());
        assert!(known.count() >= 3, "a majority does not know of it");
        soon!("it is on all", on(&servers, "q").await == 5);
        guard.release().await.unwrap();
        soon!("it is on none", on(&servers, "q").await == 0);
    }
}

/// S-23: whatever the servers' counters say, and whichever majority answers, tokens grow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_grow_from_majority_to_majority() {
    let servers = servers(3).await;
    let quorum = quorum_of(&servers).await;
    let ahead = (1u64 << 53) + 9;
    let counter = ["SET", "redisson_lock_token:{t}", &ahead.to_string()];
    servers[2].client().cmd(&counter).await;
    let mut last = ahead;
    // The one that was ahead is out after the first round, and then each in turn.
    for round in 0..6 {
        let out = &servers[round % 3];
        out.pause();
        let guard = quorum.mutex("t").lock().await.unwrap();
        let token = guard.token().get();
        assert!(token > last, "round {round}: {token} after {last}");
        last = token;
        drop(guard);
        out.resume();
        soon!("it is on none", on(&servers, "t").await == 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quorum_of_one_and_a_plain_mutex_exclude_each_other() {
    let (server, client) = world().await;
    let quorum = quorum_of(std::slice::from_ref(&server)).await;
    let guard = client.mutex("one").lock().await.unwrap();
    assert!(quorum.mutex("one").try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
    let guard = quorum.mutex("one").lock().await.unwrap();
    assert!(client.mutex("one").try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
    server.client().cmd(&["SET", "one", "no lock"]).await;
    let error = quorum.mutex("one").lock().await.unwrap_err();
    assert!(matches!(error, LockError::KeyCollision { .. }), "{error:?}");
    // Its only server says why.
    let guard = quorum.mutex("two").lock().await.unwrap();
    server.client().cmd(&["ACL", "SETUSER", "default", "-evalsha"]).await;
    let error = guard.release().await.unwrap_err();
    assert_eq!(store_kind(&error), Some(StoreErrorKind::Denied), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_starts_with_a_majority() {
    let servers = servers(3).await;
    servers[0].kill();
    let start = Instant::now();
    let quorum = quorum_of(&servers).await;
    assert!(start.elapsed() < patience(secs(1)), "{:?}", start.elapsed());
    quorum.mutex("m").lock().await.unwrap().release().await.unwrap();
    servers[0].restart().await;
    soon!("the third joins", {
        let guard = quorum.mutex("m").lock().await.unwrap();
        sleep(ms(50)).await;
        let joined = on(&servers, "m").await == 3;
        guard.release().await.unwrap();
        joined
    });
    // One that hangs holds the start up no longer than its majority takes.
    servers[1].pause();
    let start = Instant::now();
    quorum_of(&servers).await.mutex("m2").lock().await.unwrap().release().await.unwrap();
    assert!(start.elapsed() < patience(secs(1)), "{:?}", start.elapsed());
}

/// S-33: what cannot work is said at once, in one sentence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_start_fails_at_once_and_clearly() {
    let running = RedisServer::start().await;
    let locked = RedisServer::builder().password("right-one").start().await;
    let away = "redis://127.0.0.1:1".to_owned();
    let away_as_well = "redis://127.0.0.1:2".to_owned();
    let wrong = locked.url_with_password(Some("wrong-one"));
    let connect = async |urls: &[String]| {
        LockClient::builder().connect_quorum(urls, RestartGuard::Off).await.unwrap_err()
    };
    let most_away = vec![running.url(), away.clone(), away_as_well];
    for (urls, kind, says) in [
        (most_away, StoreErrorKind::Unavailable, "2 of the 3 servers"),
        (vec![running.url(), "nonsense".to_owned()], StoreErrorKind::Config, "cannot be used"),
        (vec![running.url(), wrong], StoreErrorKind::Denied, "password"),
        (vec![away.clone()], StoreErrorKind::Unavailable, "cannot be reached"),
    ] {
        let start = Instant::now();
        let error = connect(&urls).await;
        assert!(start.elapsed() < patience(secs(1)), "{urls:?}: {:?}", start.elapsed());
        assert_eq!(store_kind(&error), Some(kind), "{urls:?}: {error:?}");
        let text = error.to_string();
        assert!(text.contains(says), "{urls:?}: {text}");
        let all = format!("{error:?} {error:#?} {text}");
        assert!(!all.contains("wrong-one"), "{urls:?}: {all}");
    }
    for urls in [vec![], vec![away.clone(), away]] {
        let error = connect(&urls).await;
        assert!(matches!(error, LockError::InvalidOptions(_)), "{error:?}");
    }
    let none: [Arc<dyn Store>; 0] = [];
    assert!(matches!(
        LockClient::builder().quorum_of(none, RestartGuard::Off),
        Err(LockError::InvalidOptions(_))
    ));
    for wrong in [Duration::ZERO, secs(60 * 60 * 25)] {
        let of_one = |builder: LockClientBuilder, guard| {
            builder.quorum_of([Arc::new(MemoryStore::new()) as Arc<dyn Store>], guard)
        };
        let builder = LockClient::builder;
        for (outcome, name) in [
            (of_one(builder().server_timeout(wrong), RestartGuard::Off), "server_timeout"),
            (of_one(builder(), RestartGuard::For(wrong)), "the restart guard"),
        ] {
            let error = outcome.unwrap_err();
            assert!(error.to_string().contains(&format!("{name} is {wrong:?}")), "{error}");
        }
        of_one(builder(), RestartGuard::For(secs(30))).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_kinds_are_refused() {
    let servers = servers(3).await;
    let quorum = quorum_of(&servers).await;
    let client = &quorum;
    let two = client.semaphore("s", 2);
    let several = MultiLock::of([client.mutex("x").into(), client.mutex("y").into()]);
    for (error, says) in [
        (client.fair_mutex("f").lock().await.unwrap_err(), "fair mutex"),
        (client.rw_lock("r").write().await.unwrap_err(), "write lock"),
        (two.acquire().await.unwrap_err(), "semaphore"),
        (several.lock().await.unwrap_err(), "multi lock"),
        (client.latch("l").count_down().await.unwrap_err(), "count-down latch"),
    ] {
        assert_eq!(store_kind(&error), Some(StoreErrorKind::Config), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(says) && text.contains("quorum"), "{text}");
    }
    assert_eq!(on(&servers, "f").await, 0);
}

/// S-29: a majority that answers renews, whatever the others do; without one, a renewal has failed, and the log says why.
#[tokio::test]
async fn a_renewal_is_what_a_majority_says() {
    let (log, servers) = (Log::start(), servers(3).await);
    let builder = LockClient::builder().server_timeout(ms(200));
    let urls = servers.iter().map(RedisServer::url);
    let quorum = builder.connect_quorum(urls, RestartGuard::Off).await.unwrap();
    let guard = quorum.mutex("q").with(watched(secs(3))).lock().await.unwrap();
    soon!("it is on all", on(&servers, "q").await == 3);
    servers[0].kill();
    let before = guard.remaining();
    soon!("it is renewed", guard.remaining() > before);
    assert_eq!(log.lines_with("renewal failed"), [""; 0]);
    servers[1].kill();
    soon!("its renewals fail", !log.lines_with("renewal failed").is_empty());
    let line = log.lines_with("renewal failed").remove(0);
    assert!(line.contains("only 1 of the 3 servers"), "{line}");
}
