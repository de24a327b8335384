//! What a layer does that was told nothing but a key: every wait, line and held body has an end.

use futures_util::future::{Either, select};

use crate::tower::layers::hold::sent;
use crate::tower::prelude::*;

const MINUTE: Duration = secs(60);

/// How long a request waits for a lock that stays busy, and its answer; `None` if that takes an hour.
async fn refused(layer: HttpLockLayerBuilder) -> Option<(u64, String)> {
    let start = Instant::now();
    let answer = layer.build().unwrap().layer(Calls::default().service()).oneshot(pay());
    let answer = timeout(60 * MINUTE, answer).await.ok()?.unwrap();
    Some((start.elapsed().as_secs(), seen(answer).await))
}

/// Ten seconds, unless a wait was set: other settings leave that alone.
#[tokio::test(start_paused = true)]
async fn a_request_waits_ten_seconds() {
    type Adapt = fn(HttpLockLayerBuilder) -> HttpLockLayerBuilder;
    let as_it_is: Adapt = |layer| layer;
    let by_policy: Adapt = |layer| layer.policy("p");
    let rows: [(&str, Adapt, Option<u64>); 12] = [
        ("[lock]", as_it_is, Some(10)),
        ("[lock]", |layer| layer.options(LockOptions::new().max_hold(MINUTE)), Some(10)),
        ("[lock]", |layer| layer.wait(Wait::Forever), None),
        ("[lock]", |layer| layer.wait(secs(25)), Some(25)),
        ("[lock]", |layer| layer.options(waits(Wait::Forever)), None),
        ("[lock]", |layer| layer.options(waits(secs(25))), Some(25)),
        ("[lock.defaults]\nwait = 'forever'", as_it_is, None),
        ("[lock.defaults]\nwait = '25s'", as_it_is, Some(25)),
        ("[lock.policies.p]\nwait = 'forever'", by_policy, None),
        ("[lock.policies.p]\nwait = '25s'", by_policy, Some(25)),
        ("[lock.policies.p]\nmax_waiters = 5", by_policy, Some(10)),
        ("[lock.defaults]\nwait = '25s'\n[lock.policies.p]", by_policy, Some(25)),
    ];
    for (n, (text, adapt, expected)) in rows.into_iter().enumerate() {
        let (locks, peer) = clients(text);
        let _other = peer.mutex(ORDER).lock().await.unwrap();
        let found = refused(adapt(order_layer(&locks))).await;
        assert_eq!(found.as_ref().map(|(waited, _)| *waited), expected, "row {n}");
        if let Some((_, answer)) = found {
            assert!(answer.starts_with("503 ") && answer.contains("lock-timeout"), "{answer}");
        }
    }
    for wait in [Wait::Forever, secs(25).into()] {
        let locks = LockClient::builder().options(waits(wait)).in_memory().unwrap();
        let _other = locks.mutex(ORDER).lock().await.unwrap();
        let waited = refused(order_layer(&locks)).await.map(|(waited, _)| waited);
        assert_eq!(waited, (wait != Wait::Forever).then_some(25), "of the client");
    }
}

/// Each call has the wait that the client's configuration has by then.
#[tokio::test(start_paused = true)]
async fn a_generic_layer_follows_the_clients_defaults() {
    let text = |wait: u64| config(&format!("[lock.defaults]\nwait = '{wait}s'"));
    let locks = LockClient::builder().config(text(1)).in_memory().unwrap();
    let _other = locks.mutex(ORDER).lock().await.unwrap();
    let layer =
        || LockLayer::new(locks.clone(), |_: &Request<TestBody>| LockKey::new(ORDER).map(Some));
    let (follows, told) = (layer(), layer().options(waits(secs(3))));
    for wait in [1, 5] {
        locks.reload(text(wait)).unwrap();
        for (layer, expected) in [(&follows, wait), (&told, 3)] {
            let start = Instant::now();
            let call = layer.layer(Calls::default().service()).oneshot(pay());
            assert!(timeout(MINUTE, call).await.expect("a hang").is_err());
            assert_eq!(start.elapsed().as_secs(), expected);
        }
    }
}

/// How many of so many requests are refused at once while the lock is busy, and how.
async fn overloaded(layer: HttpLockLayerBuilder, requests: usize) -> (usize, String) {
    let layer = layer.wait(Wait::Forever).build().unwrap();
    let calls = (0..requests).map(|_| {
        let answer = layer.layer(Calls::default().service()).oneshot(pay());
        async { timeout(secs(1), answer).await.ok() }
    });
    let mut answers: Vec<_> = join_all(calls).await.into_iter().flatten().collect();
    let count = answers.len();
    match answers.pop() {
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
    assert!(answer.contains("Too many requests wait for this resource"), "{answer}");
    assert_eq!(overloaded(order_layer(&locks).max_waiters(3), 10).await.0, 6);
    assert_eq!(overloaded(order_layer(&locks).max_waiters(2_000), 1_032).await.0, 0);
    // Set for the client, it is the layer's as well.
    let (configured, peer) = clients("[lock.defaults]\nmax_waiters = 1_030");
    let _other = peer.mutex(ORDER).lock().await.unwrap();
    assert_eq!(overloaded(order_layer(&configured), 1_032).await.0, 1);
}

/// How long a body that never ends keeps its lock, polled by a server or not, and how it ends.
async fn body_hold(layer: HttpLockLayerBuilder, polled: bool) -> Option<(u64, String)> {
    let service = layer.build().unwrap().layer(service_fn(async |_| {
        let (sender, body) = sent(SizeHint::new());
        // The end of the stream never comes.
        std::mem::forget(sender);
        Ok::<_, Infallible>(Response::new(body))
    }));
    let start = Instant::now();
    let answer = service.oneshot(pay()).await.unwrap();
    assert_eq!(answer.status(), 200);
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
    assert!(held_for == 30 && end.contains("not sent within"), "{held_for} {end}");
    // A server does not poll the body of a client that does not read.
    let looks = async {
        sleep(secs(29)).await;
        let before = held(&store, ORDER);
        sleep(secs(2)).await;
        (before, held(&store, ORDER))
    };
    let unpolled = pin!(body_hold(order_layer(&locks), false));
    let Either::Right((looks, _)) = select(unpolled, pin!(looks)).await else {
        panic!("it ended too soon")
    };
    assert_eq!(looks, (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_body_limit_that_was_set_counts() {
    let policy = |http: &str| {
        let (locks, _) = clients(&format!("[lock.policies.p]\nkey = 'k'\n{http}"));
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
        assert_eq!(held_for, expected, "row {n}");
    }
    let zero = || code().max_body_hold(Duration::ZERO);
    for layer in
        [zero(), zero().policy("p"), LockLayer::http().max_body_hold(Duration::ZERO).routes()]
    {
        let error = layer.build().unwrap_err().to_string();
        assert!(error.contains("`max_body_hold` is zero"), "{error}");
    }
}
