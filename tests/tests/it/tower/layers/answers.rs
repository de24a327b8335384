//! What a client is told: one case for each row of the table in `lock_tower::http`.

use axum::extract::Path;
use axum::response::IntoResponse;
use http::header::RETRY_AFTER;
use lock_tower::http::{KeyError, RefusalKind};
use lock_tower::{HeldLockRejection, LockResponse};

use crate::tower::prelude::*;

/// A refusal as a client sees it. One that has no use in coming back does not say when to.
fn problem(kind: &str, title: &str, status: u16, rest: &str) -> String {
    let retry = if [409, 503].contains(&status) { "retry-after: 1\n" } else { "" };
    let head = "cache-control: no-store\ncontent-type: application/problem+json";
    let line = StatusCode::from_u16(status).unwrap();
    let body =
        format!(r#"{{"type":"/problems/{kind}","title":"{title}","status":{status}{rest}}}"#);
    format!("{line}\n{head}\n{retry}\n{body}")
}

/// What a refusal ends with whose handler has not begun.
const UNEXECUTED: &str = r#","executed":false"#;

/// At once, or when its wait is over; and served when the lock is free again.
#[tokio::test(start_paused = true)]
async fn a_busy_lock_is_a_conflict_and_a_wait_that_runs_out_unavailable() {
    let busy = ("lock-busy", "Another request holds this resource", 409);
    let timeout = ("lock-timeout", "Other requests held this resource for too long", 503);
    for (wait, waited, (kind, title, status)) in
        [(Wait::None, 0, busy), (Wait::UpTo(secs(2)), 2, timeout)]
    {
        let (locks, peer, _) = two_clients();
        let (calls, other) = (Calls::default(), peer.mutex("order:42").lock().await.unwrap());
        let service = order_layer(&locks).wait(wait).build().unwrap().layer(calls.service());
        let start = Instant::now();
        let refused = service.clone().oneshot(pay()).await.unwrap();
        assert_eq!((start.elapsed().as_secs(), calls.count()), (waited, 0));
        assert_eq!(seen(refused).await, problem(kind, title, status, UNEXECUTED));
        other.release().await.unwrap();
        let answer = seen(service.oneshot(pay()).await.unwrap()).await;
        assert_eq!((answer.as_str(), calls.count()), ("200 OK\n\ndone", 1));
    }
}

/// The seconds of a busy answer's `Retry-After`.
fn seconds<B>(response: &Response<B>) -> u64 {
    response.headers()[RETRY_AFTER].to_str().unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn too_many_waiters_are_sent_away() {
    let (locks, peer, _) = two_clients();
    let _other = peer.mutex("order:42").lock().await.unwrap();
    let narrow = LockOptions::new().max_waiters(1);
    let service =
        order_layer(&locks).options(narrow).build().unwrap().layer(Calls::default().service());
    let mut waiting = Vec::new();
    let refused = loop {
        // One contends in the store, one waits behind it, and the next is too many.
        assert!(waiting.len() < 4, "no request is sent away");
        let mut future = Box::pin(service.clone().oneshot(pay()));
        tokio::select! {
            biased;
            refused = &mut future => break refused.unwrap(),
            () = sleep(ms(1)) => waiting.push(future),
        }
    };
    assert_eq!(
        seen(refused).await,
        problem("lock-overloaded", "Too many requests wait for this resource", 503, UNEXECUTED)
    );
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_is_unavailable() {
    for (kind, level) in [
        (StoreErrorKind::Unavailable, "WARN"),
        (StoreErrorKind::OutcomeUnknown, "WARN"),
        (StoreErrorKind::NotReady, "WARN"),
        (StoreErrorKind::OutOfMemory, "ERROR"),
        (StoreErrorKind::Denied, "ERROR"),
        (StoreErrorKind::Config, "ERROR"),
    ] {
        let locks = LockClient::builder().store(Troubled::refusing(kind)).unwrap();
        let (calls, log, start) =
            (Calls::default(), Log::start_at(tracing::Level::DEBUG), Instant::now());
        let service = order_layer(&locks).build().unwrap().layer(calls.service());
        let refused = service.oneshot(pay()).await.unwrap();
        // Not for ever, although the layer would wait for ever for a lock.
        assert!(start.elapsed() < secs(7), "{kind:?}");
        assert!((2..=3).contains(&seconds(&refused)), "{kind:?}");
        let answer = seen(refused).await;
        assert!(answer.starts_with("503 Service Unavailable\ncache-control: no-store"), "{answer}");
        let body = r#"{"type":"/problems/lock-unavailable","title":"Locks are not available at the moment","status":503,"executed":false}"#;
        assert!(answer.ends_with(body), "{answer}");
        assert_eq!(calls.count(), 0, "{kind:?}");
        let log = log.text();
        let line = log.lines().find(|line| line.contains("lock_tower")).unwrap();
        assert!(line.contains(level) && line.contains("it is in trouble"), "{kind:?}: {log}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_shut_down_is_unavailable() {
    let locks = LockClient::in_memory();
    assert!(locks.shutdown(PROMPTLY).await.is_clean());
    let service = order_layer(&locks).build().unwrap().layer(Calls::default().service());
    let answer = seen(service.oneshot(pay()).await.unwrap()).await;
    assert!(answer.starts_with("503 "), "{answer}");
    assert!(answer.contains("/problems/lock-unavailable"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_cuts_the_handler_off() {
    let (locks, peer, store) = two_clients();
    let lease = ms(500);
    let layer = order_layer(&locks).options(waits_and_holds(Wait::None, lease)).build().unwrap();
    let (dropped, start) = (Calls::default(), Instant::now());
    let guard = dropped.clone();
    let service = layer.layer(service_fn(move |_| {
        let guard = OnDrop(guard.clone());
        async move {
            sleep(secs(3600)).await;
            drop(guard);
            Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::default()))
        }
    }));
    let lost = service.oneshot(pay()).await.unwrap();
    assert!(start.elapsed() < lease, "at the deadline, which is before the store forgets");
    assert_eq!(dropped.count(), 1, "the handler is gone before the answer is there");
    assert_eq!(
        seen(lost).await,
        problem(
            "lock-lost",
            "The request lost its hold on the resource before it was done",
            500,
            ""
        )
    );
    for next in [peer, locks] {
        let guard = timeout(PROMPTLY, next.mutex("order:42").lock()).await.unwrap().unwrap();
        assert_eq!(held(&store, "order:42"), 1);
        guard.release().await.unwrap();
    }
}

struct OnDrop(Calls);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.add();
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_be_let_finish_after_a_loss() {
    let locks = LockClient::in_memory();
    let terms = waits_and_holds(Wait::None, ms(500)).on_lost(OnLost::Finish);
    let layer = order_layer(&locks).options(terms).build().unwrap();
    let finished = Calls::default();
    let count = finished.clone();
    let service = layer.layer(service_fn(move |_| {
        let count = count.clone();
        async move {
            sleep(secs(2)).await;
            count.add();
            Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::default()))
        }
    }));
    let lost = service.oneshot(pay()).await.unwrap();
    assert_eq!((lost.status(), finished.count()), (StatusCode::INTERNAL_SERVER_ERROR, 1));
    assert!(seen(lost).await.contains("/problems/lock-lost"));
}

/// A layer whose key is made of a header.
fn tenant(skips: bool) -> impl Layer<Inner, Service = Tenant> {
    LockLayer::http()
        .key("tenant:{header.x-tenant}")
        .client(LockClient::in_memory())
        .skip_missing_key(skips)
        .build()
        .unwrap()
}

type Inner =
    tower::util::BoxCloneService<Request<TestBody>, Response<TestBody>, std::convert::Infallible>;
type Tenant = lock_tower::http::HttpLockService<Inner>;

#[tokio::test(start_paused = true)]
async fn a_missing_key_is_a_bad_request_unless_it_may_be_missing() {
    let calls = Calls::default();
    let service = tenant(false).layer(Inner::new(calls.service()));
    assert_eq!(
        seen(service.oneshot(pay()).await.unwrap()).await,
        problem(
            "lock-key-missing",
            "The request is missing a value that the lock key needs",
            400,
            r#","detail":"the request has no header `x-tenant`","executed":false"#
        )
    );
    assert_eq!(calls.count(), 0);
    let service = tenant(true).layer(Inner::new(calls.service()));
    assert_eq!(service.oneshot(pay()).await.unwrap().status(), StatusCode::OK);
    assert_eq!(calls.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_malformed_key_is_a_bad_request_even_if_it_may_be_missing() {
    let (calls, two) = (Calls::default(), "once");
    for (values, wrong) in [
        (vec![two, two], "is there more than once"),
        (vec![""], "is empty"),
        (vec!["bl\u{fc}e"], "is not visible ASCII"),
    ] {
        let mut request = pay();
        for value in values {
            let value = value.as_bytes().try_into().unwrap();
            request.headers_mut().append("x-tenant", value);
        }
        let service = tenant(true).layer(Inner::new(calls.service()));
        assert_eq!(
            seen(service.oneshot(request).await.unwrap()).await,
            problem(
                "lock-key-invalid",
                "The request names no valid resource",
                400,
                &format!(r#","detail":"the request's header `x-tenant` {wrong}","executed":false"#)
            )
        );
    }
    assert_eq!(calls.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_too_long_is_a_bad_request_and_not_repeated() {
    let locks = LockClient::builder().namespace("n".repeat(400)).in_memory().unwrap();
    let layer = LockLayer::http().key("a:{header.a}:{header.b}").client(locks).build().unwrap();
    let mut request = pay();
    let value = http::HeaderValue::from_str(&"secret".repeat(20)).unwrap();
    request.headers_mut().insert("a", value.clone());
    request.headers_mut().insert("b", value);
    let service = layer.layer(Calls::default().service());
    let answer = seen(service.oneshot(request).await.unwrap()).await;
    assert!(answer.starts_with("400 ") && answer.contains("lock-key-invalid"), "{answer}");
    assert!(!answer.contains("secret") && !answer.contains("nnn"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_closure_answers_for_itself() {
    let layer = |error: KeyError| {
        let layer = LockLayer::http().client(LockClient::in_memory());
        layer.key_fn(move |_| Err(error.clone())).build().unwrap()
    };
    for (error, status, kind) in [
        (KeyError::Missing("tenant".into()), 400, "lock-key-missing"),
        (KeyError::Misplaced("no tenant layer".into()), 500, "lock-misconfigured"),
        (KeyError::Invalid(lock_runtime::LockKey::new("").unwrap_err()), 400, "lock-key-invalid"),
    ] {
        let calls = Calls::default();
        let service = layer(error).layer(calls.service());
        let answer = seen(service.oneshot(pay()).await.unwrap()).await;
        assert!(answer.starts_with(&status.to_string()) && answer.contains(kind), "{answer}");
        assert_eq!(calls.count(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_client_the_log_says_how_to_get_one() {
    let log = Log::start_at(tracing::Level::DEBUG);
    let layer = LockLayer::http().key("nightly").build().unwrap();
    let (calls, scoped) = (Calls::default(), LockClient::in_memory());
    let mut service = layer.layer(calls.service());
    let refused = service.ready().await.unwrap().call(pay()).await.unwrap();
    assert_eq!(
        seen(refused).await,
        problem("lock-misconfigured", "The server cannot lock this resource", 500, UNEXECUTED)
    );
    let log = log.text();
    assert!(log.contains("ERROR") && log.contains("call `client.install()` at start-up"), "{log}");
    assert_eq!(calls.count(), 0);
    // The client of the scope around the call is found.
    let served = scoped.scope(async { service.ready().await.unwrap().call(pay()).await }).await;
    assert_eq!(served.unwrap().status(), StatusCode::OK);
}

/// Nothing that an outsider could use shows in any answer, and the log has what the operator needs.
#[tokio::test(start_paused = true)]
async fn the_key_is_in_the_log_only() {
    let (log, store) = (Log::start_at(tracing::Level::DEBUG), MemoryStore::new());
    let client = |store| LockClient::builder().namespace("shop").store(store).unwrap();
    let (locks, peer) = (client(store.clone()), client(store.peer()));
    // Tokens follow the clock, and a small one would be found in any answer.
    sleep(secs(987_654)).await;
    let other = peer.mutex("order:jane@example.org").lock().await.unwrap();
    let (owner, token) = (store.holders("shop:order:jane@example.org").0, other.token());
    let request = || Request::post("/orders/jane@example.org/pay").body(Full::default()).unwrap();
    for wait in [Wait::None, Wait::UpTo(secs(1))] {
        let layer = order_layer(&locks).options(options(wait)).build().unwrap();
        let service = layer.layer(Calls::default().service());
        let answer = seen(service.oneshot(request()).await.unwrap()).await;
        for secret in ["jane", "order", "shop:", &owner[0].0, &token.to_string()] {
            assert!(!answer.contains(secret), "{secret} in {answer}");
        }
    }
    let log = log.text();
    assert!(log.contains("shop:order:jane@example.org"), "{log}");
    assert!(!log.contains(&owner[0].0), "{log}");
}

#[distributed_lock(key = "order:{id}", wait = "2s", client = locks)]
async fn charge(locks: &LockClient, id: u64) -> Result<String, LockResponse> {
    Ok(format!("paid {id}"))
}

/// A handler that locks by itself answers as the layer does, but for what it cannot know: how far it came.
#[tokio::test(start_paused = true)]
async fn a_handlers_own_lock_is_answered_as_the_layers() {
    async fn handler(
        Path(id): Path<u64>,
        State(locks): State<LockClient>,
    ) -> Result<String, LockResponse> {
        charge(&locks, id).await
    }
    async fn try_pay(State(locks): State<LockClient>) -> Result<(), LockResponse> {
        let guard = locks.mutex("order:42").with(waits(Wait::None)).lock().await?;
        Ok(guard.release().await?)
    }
    async fn owned(held: Result<HeldLock, HeldLockRejection>) -> Result<(), HeldLockRejection> {
        held.map(drop)
    }
    let (locks, peer, _) = two_clients();
    let app = Router::new()
        .route("/orders/{id}/pay", post(handler))
        .route("/try", post(try_pay))
        .route("/owned", post(owned))
        .with_state(locks.clone());
    let other = peer.mutex("order:42").lock().await.unwrap();
    let ask = async |path: &str| {
        let request = Request::post(path).body(Body::empty()).unwrap();
        seen(app.clone().oneshot(request).await.unwrap()).await
    };
    let layers = |wait| order_layer(&locks).wait(wait).build().unwrap();
    for (path, wait) in [("/orders/42/pay", Wait::UpTo(secs(2))), ("/try", Wait::None)] {
        let by_layer = layers(wait).layer(Calls::default().service()).oneshot(pay());
        let by_layer = seen(by_layer.await.unwrap()).await;
        let by_layer = by_layer.replace(r#","executed":false"#, "");
        let by_handler = ask(path).await;
        let by_handler = by_handler.lines().filter(|line| !line.starts_with("content-length"));
        assert!(by_handler.eq(by_layer.lines()), "{by_layer}");
    }
    other.release().await.unwrap();
    assert!(ask("/orders/42/pay").await.ends_with("paid 42"));
    assert!(ask("/owned").await.starts_with("500 "));

    let guard = locks.mutex("a").with(waits_and_holds(Wait::None, ms(300))).lock().await.unwrap();
    sleep(secs(1)).await;
    let lost = LockResponse::from(guard.release().await.unwrap_err());
    assert_eq!((lost.kind(), lost.status().as_u16()), (RefusalKind::Lost, 500));
    assert!(lost.retry_after().is_none() && !lost.is_unexecuted());
    assert_eq!(lost.into_response().status(), StatusCode::INTERNAL_SERVER_ERROR);
}
