//! Count-down latches on Redis (S-30): what they promise, and on Redisson's wire.

use lock_runtime::CountDownLatch;

use crate::prelude::*;

/// When a latch ends by itself.
const CENTURY: Duration = secs(3_155_760_000);

/// Below the poll cap of five seconds less a fifth: only a message is as fast.
const BY_MESSAGE: Duration = secs(3);

fn channel(name: &str) -> String {
    format!("redisson_countdownlatch__channel__{{{name}}}")
}

fn store_kind<T>(outcome: Result<T, LockError>) -> Option<StoreErrorKind> {
    match outcome {
        Err(LockError::Store(error)) => Some(error.kind()),
        _ => None,
    }
}

type Waiter = JoinHandle<Result<(), LockError>>;

fn spawn(latch: &CountDownLatch) -> Waiter {
    let latch = latch.clone();
    lock_tests::spawn(async move { latch.reached().await })
}

/// A task that waits for the latch, and is waiting by the time this returns.
async fn waiter(server: &RedisServer, client: &LockClient, name: &str) -> Waiter {
    let before = server.pubsub_numsub(&channel(name)).await;
    let waiter = spawn(&client.latch(name));
    soon!("the waiter listens", server.pubsub_numsub(&channel(name)).await > before);
    waiter
}

/// Each has been told.
async fn all_go_on(waiters: impl IntoIterator<Item = Waiter>) {
    for waiter in waiters {
        timeout(BY_MESSAGE, waiter).await.expect("not woken").unwrap().unwrap();
    }
}

/// S-30: key, channel and messages are Redisson's; nothing is left when it is open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_latch_has_redissons_layout() {
    let (server, client) = world().await;
    let raw = server.client();
    let log = server.subscribe_log(&channel("wire")).await;
    let latch = client.latch("wire");
    assert_eq!(latch.count().await.unwrap(), 0);
    assert!(latch.try_set_count(2).await.unwrap());
    assert_eq!(raw.get::<String>(&["GET", "wire"]).await, "2");
    assert!(!latch.try_set_count(7).await.unwrap(), "set on top of a count");
    // Its end tells it from a semaphore of Redisson's; that keeps it when it counts down (S-32).
    for left in [1, 0] {
        let centuries = self::left(raw.pttl("wire").await).div_duration_f64(CENTURY);
        assert!((0.9999..=1.0).contains(&centuries), "counting shortened it");
        assert_eq!(latch.count_down().await.unwrap(), left);
    }
    assert_eq!(raw.keys().await, [""; 0]);
    assert_eq!(latch.count_down().await.unwrap(), 0, "an open latch went below zero");
    assert!(latch.try_set_count(1).await.unwrap(), "not usable again");
    assert!(latch.remove().await.unwrap() && !latch.remove().await.unwrap());
    assert_eq!(raw.keys().await, [""; 0]);
    assert_eq!(log.wait_for(4, SOON).await, ["1", "0", "1", "0"]);

    // Left behind by Redisson's `trySetCount(0)`: open, and countable.
    raw.cmd(&["SET", "wire", "0"]).await;
    timeout(SOON, latch.reached()).await.expect("shut at zero").unwrap();
    assert_eq!(latch.count_down().await.unwrap(), 0);
    assert!(!raw.exists("wire").await);
}

/// S-15, S-17, S-30: the last one to count down wakes the waiters of every client, and only the last; also where the first in
/// line has gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_count_wakes_every_client() {
    let (server, client) = world().await;
    let clients = [connect(&server).await, connect(&server).await];
    let latch = client.latch("all");
    latch.try_set_count(3).await.unwrap();
    let mut waiters = Vec::new();
    for client in &clients {
        let first = waiter(&server, client, "all").await;
        waiters.extend([spawn(&client.latch("all")), spawn(&client.latch("all"))]);
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
    }
    for left in [2, 1] {
        assert_eq!(clients[0].latch("all").count_down().await.unwrap(), left);
    }
    assert!(!waiters.iter().any(JoinHandle::is_finished), "woken too early");
    assert_eq!(latch.count_down().await.unwrap(), 0);
    all_go_on(waiters).await;
    // Removing lets them go as well.
    latch.try_set_count(3).await.unwrap();
    let waiter = waiter(&server, &connect(&server).await, "all").await;
    assert!(latch.remove().await.unwrap());
    all_go_on([waiter]).await;
}

/// S-15: opened without any message, the waiter goes on within the poll cap; and the reconnect wakes it, not the poll, where
/// the subscription was down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_message_costs_the_poll_cap_or_a_reconnect() {
    let server = RedisServer::start().await;
    for (cap, reconnects) in [(ms(500), false), (secs(60), true)] {
        let client = LockClient::builder().poll_cap(cap).connect(&server.url()).await.unwrap();
        client.latch("lost").try_set_count(1).await.unwrap();
        let waiter = waiter(&server, &client, "lost").await;
        assert!(server.client().del("lost").await);
        if reconnects {
            assert!(server.client_kill(ClientType::PubSub).await > 0);
        }
        timeout(SOON.min(cap * 3), waiter).await.expect("not woken").unwrap().unwrap();
    }
}

/// S-33: an unreachable store is never taken for an open latch, nor for a shut one, and each of those
/// in line has its own patience.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patience_ends_every_wait_at_once() {
    let server = RedisServer::start().await;
    let patience = secs(1);
    let settings = LockClient::builder().store_patience(patience).poll_cap(patience);
    let client = settings.connect(&server.url()).await.unwrap();
    client.latch("p").try_set_count(1).await.unwrap();
    let mut waiters = vec![waiter(&server, &client, "p").await];
    waiters.extend((0..20).map(|_| spawn(&client.latch("p"))));
    server.kill();
    let down = Instant::now();
    for outcome in timeout(SOON, join_all(waiters)).await.expect("hangs") {
        // A question may have been under way.
        let kind = store_kind(outcome.unwrap());
        assert!(kind.is_some_and(StoreErrorKind::is_transient), "{kind:?}");
    }
    assert!(down.elapsed() < patience * 4, "one after the other: {:?}", down.elapsed());
    assert_eq!(store_kind(client.latch("p").count().await), Some(StoreErrorKind::Unavailable));
}

/// S-30, S-32: how long a wait lasts is the options' word.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_as_the_options_say() {
    let (server, client) = world().await;
    let latch = client.latch("limits");
    let (brief, never) = (latch.clone().with(waits(ms(200))), waits(Wait::None));
    latch.try_set_count(1).await.unwrap();
    for outcome in joined([spawn(&brief), spawn(&brief)]).await {
        let error = outcome.unwrap_err();
        let LockError::LatchClosed { key, waited, count, .. } = &error else { panic!("{error:?}") };
        assert!(key == "limits" && count.is_none_or(|count| count == 1), "{error:?}");
        assert!(error.to_string().contains("is still closed after waiting"), "{error}");
        assert!(error.is_timeout() && (ms(200)..BY_MESSAGE).contains(waited), "{waited:?}");
    }
    let error = latch.clone().with(never.clone()).reached().await.unwrap_err();
    assert!(matches!(error, LockError::LatchClosed { count: Some(1), .. }), "{error:?}");
    assert!(error.is_busy() && !error.is_timeout(), "{error:?}");
    // Also beside somebody who waits, once it is open.
    let beside = client.latch("beside");
    beside.try_set_count(1).await.unwrap();
    let waiter = waiter(&server, &client, "beside").await;
    assert!(server.client().del("beside").await);
    beside.with(never).reached().await.unwrap();
    waiter.abort();
    let few = latch.clone().with(LockOptions::new().max_waiters(1));
    let crowd = [(); 3].map(|()| spawn(&few));
    soon!("one is too many", crowd.iter().any(JoinHandle::is_finished));
    latch.count_down().await.unwrap();
    let refused: Vec<_> = joined(crowd).await.into_iter().filter_map(Result::err).collect();
    let [LockError::Busy { reason: BusyReason::TooManyWaiters, .. }] = refused[..] else {
        panic!("{refused:?}")
    };
}

/// S-20: a shutdown wakes the waiters, and nothing works afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_wakes_the_waiters() {
    let (server, client) = world().await;
    let latch = client.latch("bye");
    latch.try_set_count(1).await.unwrap();
    let waiters = [waiter(&server, &client, "bye").await, spawn(&latch)];
    assert!(client.shutdown(SOON).await.is_clean());
    for waiter in waiters {
        let outcome = timeout(BY_MESSAGE, waiter).await.expect("not woken").unwrap();
        assert!(matches!(outcome, Err(LockError::Closed)), "{outcome:?}");
    }
    assert!(matches!(latch.reached().await, Err(LockError::Closed)));
    assert!(matches!(latch.count().await, Err(LockError::Closed)));
    assert!(matches!(latch.count_down().await, Err(LockError::Closed)));
}

/// S-30: a count whose answer was lost is reported, and was counted once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unanswered_count_is_not_repeated() {
    let (_server, proxy, client) = far_world().await;
    let latch = client.latch("once");
    // The server knows the script from here on.
    latch.count().await.unwrap();
    proxy.drop_next_reply_to("once");
    assert_eq!(store_kind(latch.try_set_count(5).await), Some(StoreErrorKind::OutcomeUnknown));
    assert_eq!(latch.count().await.unwrap(), 5);
    proxy.drop_next_reply_to("once");
    assert_eq!(store_kind(latch.count_down().await), Some(StoreErrorKind::OutcomeUnknown));
    assert_eq!(latch.count().await.unwrap(), 4);
    // Asking changes nothing, so that is repeated.
    proxy.drop_next_reply_to("once");
    assert_eq!(latch.count().await.unwrap(), 4);
    assert_eq!(proxy.replies_dropped(), 3);
}

/// S-33: what cannot have run is sent once there is a connection again, and then has its whole time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_count_outlasts_a_missing_connection() {
    let (_server, proxy) = proxied().await;
    // The connection comes back somewhere in the middle of an attempt; of four, one in its second half.
    let mut latches = Vec::new();
    for count in 0..4 {
        let builder = LockClient::builder().command_timeout(ms(800)).store_patience(SOON);
        let latch = builder.connect(&proxy.url()).await.unwrap().latch(format!("later:{count}"));
        latch.try_set_count(2).await.unwrap();
        latches.push(latch);
    }
    proxy.refuse();
    proxy.sever_all();
    let mut counting = Vec::new();
    for (latch, at) in latches.into_iter().zip(0..) {
        soon!("the connection is gone", {
            let brief = latch.clone().with(waits(Wait::None)).reached().await;
            store_kind(brief) == Some(StoreErrorKind::Unavailable)
        });
        counting.push(lock_tests::spawn(async move {
            sleep(ms(200) * at).await;
            latch.count_down().await
        }));
    }
    // Longer than one attempt takes.
    sleep(ms(1800)).await;
    assert!(!counting.iter().any(JoinHandle::is_finished));
    proxy.delay_replies(ms(500));
    for counted in joined(counting).await {
        assert_eq!(counted.unwrap(), 1);
    }
}

/// S-30: an answer from before somebody came is not taken for theirs: the latch was shut anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newcomer_does_not_get_an_old_answer() {
    let (server, proxy) = proxied().await;
    let slow = connect(&proxy).await;
    let (latch, other) = (slow.latch("new"), connect(&server).await.latch("new"));
    latch.count().await.unwrap();
    // The answer to the first, "open", is on its way while the latch is shut and a second comes.
    server.reset_stats().await;
    proxy.delay_replies(ms(500));
    let first = spawn(&latch);
    soon!("the question has come", server.command_calls().await.contains_key("evalsha"));
    other.try_set_count(1).await.unwrap();
    let second = spawn(&latch);
    timeout(SOON, first).await.expect("hangs").unwrap().unwrap();
    proxy.pass();
    server.wait_for_subscribers(&channel("new"), 1).await;
    assert!(!second.is_finished(), "let in by an answer from before");
    other.count_down().await.unwrap();
    all_go_on([second]).await;
}

/// S-19: a latch can be counted down and removed when memory is short, though not set.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counting_down_needs_no_memory() {
    let (server, client) = world().await;
    client.latch("full").try_set_count(2).await.unwrap();
    client.latch("gone").try_set_count(2).await.unwrap();
    let waiter = waiter(&server, &client, "full").await;
    server.client().cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let refused = client.latch("more").try_set_count(1).await;
    assert_eq!(store_kind(refused), Some(StoreErrorKind::OutOfMemory));
    assert_eq!(client.latch("full").count_down().await.unwrap(), 1);
    assert_eq!(client.latch("full").count_down().await.unwrap(), 0);
    all_go_on([waiter]).await;
    assert!(client.latch("gone").remove().await.unwrap());
}
