//! What a layer does that was told nothing but a key: every wait, line and held body has an end.

use futures_util::future::select;

use crate::tower::layers::hold::sent;
use crate::tower::layers::policies::config;
use crate::tower::prelude::*;

const ORDER: &str = "order:42";
const MINUTE: Duration = secs(60);

/// How long a request waits for a lock that stays busy, and its answer; `None` if that takes an hour.
async fn refused(layer: &HttpLockLayer) -> Option<(u64, String)> {
    let start = Instant::now();
    let answer = layer.layer(Calls::default().service()).oneshot(pay());
    let answer = timeout(60 * MINUTE, answer).await.ok()?.unwrap();
    Some((start.elapsed().as_secs(), seen(answer).await))
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_ten_seconds() {
    let (locks, peer, _) = two_clients();
    let _other = peer.mutex(ORDER).lock().await.unwrap();
    let (waited, answer) = refused(&order_layer(&locks).build().unwrap()).await.expect("a hang");
    assert_eq!(waited, 10);
    assert!(answer.starts_with("503 ") && answer.contains("lock-timeout"), "{answer}");
    // Other settings leave that alone.
    let minute = LockOptions::new().max_hold(MINUTE);
    let layer = order_layer(&locks).options(minute).build().unwrap();
    assert_eq!(refused(&layer).await.expect("a hang").0, 10);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_was_set_counts() {
    let forever = waits(Wait::Forever);
    let seconds = |wait| waits(secs(wait));
    let client = |builder: lock_runtime::LockClientBuilder| builder.in_memory().unwrap();
    let defaults = |text: &str| LockClient::builder().config(config(text));
    let plain = || client(LockClient::builder());
    let by_policy = |text: &str| {
        let locks = client(defaults(text));
        (locks, "p")
    };
    let mut cases: Vec<(HttpLockLayerBuilder, LockClient, Option<u64>)> = Vec::new();
    let mut add = |locks: LockClient, adapt: &dyn Fn(HttpLockLayerBuilder) -> _, expected| {
        cases.push((adapt(order_layer(&locks)), locks, expected));
    };
    add(plain(), &|layer| layer.wait(Wait::Forever), None);
    add(plain(), &|layer| layer.wait(secs(25)), Some(25));
    add(plain(), &|layer| layer.options(forever.clone()), None);
    add(plain(), &|layer| layer.options(seconds(25)), Some(25));
    add(client(LockClient::builder().options(forever.clone())), &|layer| layer, None);
    add(client(LockClient::builder().options(seconds(25))), &|layer| layer, Some(25));
    add(client(defaults("[lock.defaults]\nwait = 'forever'")), &|layer| layer, None);
    add(client(defaults("[lock.defaults]\nwait = '25s'")), &|layer| layer, Some(25));
    for (text, expected) in [
        ("[lock.policies.p]\nwait = 'forever'", None),
        ("[lock.policies.p]\nwait = '25s'", Some(25)),
        ("[lock.policies.p]\nmax_waiters = 5", Some(10)),
        ("[lock.defaults]\nwait = '25s'\n[lock.policies.p]", Some(25)),
    ] {
        let (locks, policy) = by_policy(text);
        add(locks, &|layer| layer.policy(policy), expected);
    }
    for (n, (layer, locks, expected)) in cases.into_iter().enumerate() {
        let _other = locks.mutex(ORDER).lock().await.unwrap();
        let waited = refused(&layer.build().unwrap()).await.map(|(waited, _)| waited);
        assert_eq!(waited, expected, "case {n}");
    }
}

/// How many of so many requests are refused at once while the lock is busy, and how.
async fn overloaded(layer: HttpLockLayerBuilder, requests: usize) -> (usize, String) {
    let layer = layer.wait(Wait::Forever).build().unwrap();
    let calls = (0..requests).map(|_| {
        let answer = layer.layer(Calls::default().service()).oneshot(pay());
        async { timeout(secs(1), answer).await.ok() }
    });
    let answers: Vec<_> = join_all(calls).await.into_iter().flatten().collect();
    let count = answers.len();
    match answers.into_iter().next() {
        Some(answer) => (count, seen(answer.unwrap()).await),
        None => (count, String::new()),
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_requests_wait_in_a_process() {
    let (locks, peer, _) = two_clients();
    let _other = peer.mutex(ORDER).lock().await.unwrap();
    // One asks the store, and 1 024 line up behind it.
    let (count, answer) = overloaded(order_layer(&locks), 1_032).await;
    assert_eq!(count, 7, "{answer}");
    assert!(answer.starts_with("503 ") && answer.contains("lock-overloaded"), "{answer}");
    assert_eq!(overloaded(order_layer(&locks).max_waiters(3), 10).await.0, 6);
    assert_eq!(overloaded(order_layer(&locks).max_waiters(2_000), 1_032).await.0, 0);
    // Set for the client, it is the layer's as well.
    let text = "[lock.defaults]\nmax_waiters = 1_030";
    let configured = LockClient::builder().config(config(text)).in_memory().unwrap();
    let _mine = configured.mutex(ORDER).lock().await.unwrap();
    assert_eq!(overloaded(order_layer(&configured), 1_032).await.0, 2);
}

/// How long a body that never ends keeps its lock, polled by a server or not, and how it ends.
async fn body_hold(layer: HttpLockLayerBuilder, polled: bool) -> Option<(u64, String)> {
    let layer = layer.build().unwrap();
    let service = layer.layer(service_fn(async |_| {
        let (sender, body) = sent(SizeHint::new());
        // The end of the stream never comes.
        std::mem::forget(sender);
        Ok::<_, Infallible>(Response::new(body))
    }));
    let start = Instant::now();
    let answer = service.oneshot(pay()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let mut body = answer.into_body();
    if !polled {
        sleep(60 * MINUTE).await;
    }
    let end = timeout(60 * MINUTE, body.frame()).await.ok()?.unwrap().unwrap_err();
    Some((start.elapsed().as_secs(), end.to_string()))
}

#[tokio::test(start_paused = true)]
async fn a_streamed_body_has_its_lock_for_thirty_seconds() {
    let (locks, _, store) = two_clients();
    let (held_for, end) = body_hold(order_layer(&locks), true).await.expect("a hang");
    assert_eq!(held_for, 30, "{end}");
    assert!(end.contains("not sent within"), "{end}");
    // A server does not poll the body of a client that does not read.
    let looks = async {
        sleep(secs(29)).await;
        let before = held(&store, ORDER);
        sleep(secs(2)).await;
        (before, held(&store, ORDER))
    };
    let unpolled = std::pin::pin!(body_hold(order_layer(&locks), false));
    match select(unpolled, std::pin::pin!(looks)).await {
        futures_util::future::Either::Right((looks, _)) => assert_eq!(looks, (1, 0)),
        futures_util::future::Either::Left(_) => panic!("it ended too soon"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_limit_that_was_set_counts() {
    let policy = |http: &str| {
        let text = format!("[lock.policies.p]\nkey = 'k'\n{http}");
        let locks = LockClient::builder().config(config(&text)).in_memory().unwrap();
        order_layer(&locks).policy("p")
    };
    let code = || order_layer(&two_clients().0);
    for (n, (layer, expected)) in [
        (code().max_body_hold(7 * MINUTE), Some(420)),
        (code().max_body_hold(Duration::MAX), None),
        (code().max_hold(7 * MINUTE), Some(420)),
        (code().max_hold(7 * MINUTE).max_body_hold(MINUTE), Some(60)),
        (policy(""), Some(30)),
        (policy("http = { max_body_hold = '7m' }"), Some(420)),
        (policy("http = { max_body_hold = 'unlimited' }"), None),
        (policy("max_hold = '7m'"), Some(420)),
        (policy("enforce = false"), None),
    ]
    .into_iter()
    .enumerate()
    {
        let held_for = body_hold(layer, true).await.map(|(held_for, _)| held_for);
        assert_eq!(held_for, expected, "case {n}");
    }
}

#[test]
fn a_body_limit_of_nothing_is_refused() {
    let (locks, ..) = two_clients();
    let layer = || LockLayer::http().client(locks.clone()).max_body_hold(Duration::ZERO);
    for layer in [layer().key("k"), layer().policy("p"), layer().routes()] {
        let error = layer.build().unwrap_err().to_string();
        assert_eq!(
            error,
            "invalid lock options: `max_body_hold` is zero, so no body could be sent; make it longer"
        );
    }
    assert!(layer().key("k").max_body_hold(Duration::from_nanos(1)).build().is_ok());
}
