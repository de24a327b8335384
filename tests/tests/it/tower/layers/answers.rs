//! What a client is told: one case for each row of the table in `lock_tower::http`.

use axum::extract::Path;
use axum::response::IntoResponse;
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

/// A request with these values of the header that a key is made of.
fn tenants(values: &[&str]) -> Request<TestBody> {
    let mut request = pay();
    for value in values {
        request.headers_mut().append("x-tenant", value.as_bytes().try_into().unwrap());
    }
    request
}

/// The handler of none of them begins.
#[tokio::test(start_paused = true)]
async fn each_refusal_has_its_answer() {
    let (locks, peer, _) = two_clients();
    let other = peer.mutex(ORDER).lock().await.unwrap();
    let order = || order_layer(&locks);
    let tenant = |skips| {
        let layer = LockLayer::http().key("tenant:{header.x-tenant}").client(locks.clone());
        layer.skip_missing_key(skips)
    };
    let fails = |error: KeyError| {
        LockLayer::http().client(locks.clone()).key_fn(move |_| Err(error.clone()))
    };
    let detail = |detail: &str| format!(r#","detail":"{detail}","executed":false"#);
    let header = |wrong| detail(&format!("the request's header `x-tenant` {wrong}"));
    let plain = || UNEXECUTED.to_owned();
    let no_header = detail("the request has no header `x-tenant`");
    for (layer, request, kind, rest) in [
        (order().wait(Wait::None), pay(), "busy", plain()),
        (order().wait(secs(2)), pay(), "timeout", plain()),
        (tenant(false), pay(), "key-missing", no_header),
        // One that may be missing may not be malformed.
        (tenant(true), tenants(&["a", "a"]), "key-invalid", header("is there more than once")),
        (tenant(true), tenants(&[""]), "key-invalid", header("is empty")),
        (tenant(true), tenants(&["bl\u{fc}e"]), "key-invalid", header("is not visible ASCII")),
        (fails(KeyError::Misplaced("no layer".into())), pay(), "misconfigured", plain()),
        (LockLayer::http().key("nightly"), pay(), "misconfigured", plain()),
    ] {
        let (title, status) = match kind {
            "busy" => ("Another request holds this resource", 409),
            "timeout" => ("Other requests held this resource for too long", 503),
            "key-missing" => ("The request is missing a value that the lock key needs", 400),
            "key-invalid" => ("The request names no valid resource", 400),
            _ => ("The server cannot lock this resource", 500),
        };
        let calls = Calls::default();
        let service = layer.build().unwrap().layer(calls.service());
        let answer = seen(service.oneshot(request).await.unwrap()).await;
        assert_eq!(answer, problem(&format!("lock-{kind}"), title, status, &rest));
        assert_eq!(calls.count(), 0, "{kind}");
    }
    for (error, kind) in [
        (KeyError::Missing("tenant".into()), "lock-key-missing"),
        (KeyError::Invalid(LockKey::new("").unwrap_err()), "lock-key-invalid"),
    ] {
        let answer = seen(ask(&fails(error).build().unwrap(), pay()).await).await;
        assert!(answer.starts_with("400 ") && answer.contains(kind), "{answer}");
    }
    assert_eq!(status(&tenant(true).build().unwrap(), pay()).await, 200, "it may be missing");
    other.release().await.unwrap();
    let waits = order().wait(Wait::None).build().unwrap();
    assert_eq!(seen(ask(&waits, pay()).await).await, "200 OK\n\ndone");
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
        let (log, start) = (Log::start_at(tracing::Level::DEBUG), Instant::now());
        let refused = ask(&order_layer(&locks).build().unwrap(), pay()).await;
        // Not as long as the layer would wait for a lock.
        assert!(start.elapsed() < secs(7) && (2..=3).contains(&retry_after(&refused)), "{kind:?}");
        let answer = seen(refused).await;
        assert!(answer.starts_with("503 Service Unavailable\ncache-control: no-store"), "{answer}");
        let body = r#"{"type":"/problems/lock-unavailable","title":"Locks are not available at the moment","status":503,"executed":false}"#;
        assert!(answer.ends_with(body), "{answer}");
        let lines = log.lines_with("lock_tower");
        assert!(lines[0].contains(level) && lines[0].contains("it is in trouble"), "{lines:?}");
    }
    let locks = LockClient::in_memory();
    assert!(locks.shutdown(PROMPTLY).await.is_clean());
    let answer = seen(ask(&order_layer(&locks).build().unwrap(), pay()).await).await;
    assert!(answer.starts_with("503 ") && answer.contains("lock-unavailable"), "{answer}");
}

/// S-13: a lost lease cuts the handler off, or lets it finish; the answer is the same.
#[tokio::test(start_paused = true)]
async fn a_lost_lease_is_told_either_way() {
    let lease = ms(500);
    for (on_lost, finishes) in [(OnLost::Cancel, 0), (OnLost::Finish, 1)] {
        let (locks, peer, _) = two_clients();
        let terms = waits_and_holds(Wait::None, lease).on_lost(on_lost);
        let (dropped, finished, start) = (Calls::default(), Calls::default(), Instant::now());
        let counts = (dropped.clone(), finished.clone());
        let handler = runs(move || {
            let (guard, finished) = (OnDrop(counts.0.clone()), counts.1.clone());
            async move {
                sleep(secs(2)).await;
                finished.add();
                drop(guard);
            }
        });
        let service = order_layer(&locks).options(terms).build().unwrap().layer(handler);
        let lost = service.oneshot(pay()).await.unwrap();
        assert_eq!((dropped.count(), finished.count()), (1, finishes), "gone before the answer");
        let title = "The request lost its hold on the resource before it was done";
        assert_eq!(seen(lost).await, problem("lock-lost", title, 500, ""));
        // At the deadline, which is before the store forgets.
        assert!(finishes == 1 || start.elapsed() < lease);
        for next in [peer, locks] {
            let guard = timeout(PROMPTLY, next.mutex(ORDER).lock()).await.unwrap().unwrap();
            guard.release().await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_too_long_is_not_repeated() {
    let locks = LockClient::builder().namespace("n".repeat(400)).in_memory().unwrap();
    let layer = LockLayer::http().key("a:{header.a}:{header.b}").client(locks).build().unwrap();
    let mut request = pay();
    for name in ["a", "b"] {
        request.headers_mut().insert(name, "secret".repeat(20).parse().unwrap());
    }
    let answer = seen(ask(&layer, request).await).await;
    assert!(answer.starts_with("400 ") && answer.contains("lock-key-invalid"), "{answer}");
    assert!(!answer.contains("secret") && !answer.contains("nnn"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn without_a_client_the_log_says_how_to_get_one() {
    let log = Log::start_at(tracing::Level::DEBUG);
    let layer = LockLayer::http().key("nightly").build().unwrap();
    assert_eq!(status(&layer, pay()).await, 500);
    let lines = log.lines_with("call `client.install()` at start-up");
    assert!(lines[0].contains("ERROR"), "{lines:?}");
    // The client of the scope around the call is found.
    let scoped = LockClient::in_memory();
    assert_eq!(scoped.scope(async { status(&layer, pay()).await }).await, 200);
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
    for wait in [Wait::None, Wait::UpTo(secs(1))] {
        let layer = order_layer(&locks).wait(wait).build().unwrap();
        let answer = seen(ask(&layer, request("POST", "/orders/jane@example.org/pay")).await).await;
        for secret in ["jane", "order", "shop:", &owner[0].0, &token.to_string()] {
            assert!(!answer.contains(secret), "{secret} in {answer}");
        }
    }
    let log = log.text();
    assert!(log.contains("shop:order:jane@example.org") && !log.contains(&owner[0].0), "{log}");
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
        let guard = locks.mutex(ORDER).with(waits(Wait::None)).lock().await?;
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
    let other = peer.mutex(ORDER).lock().await.unwrap();
    for (path, wait) in [("/orders/42/pay", Wait::UpTo(secs(2))), ("/try", Wait::None)] {
        let by_layer = ask(&order_layer(&locks).wait(wait).build().unwrap(), pay()).await;
        let by_layer = seen(by_layer).await.replace(UNEXECUTED, "");
        let by_handler = seen(send(&app, "POST", path).await).await;
        let by_handler = by_handler.lines().filter(|line| !line.starts_with("content-length"));
        assert!(by_handler.eq(by_layer.lines()), "{by_layer}");
    }
    other.release().await.unwrap();
    assert!(seen(send(&app, "POST", "/orders/42/pay").await).await.ends_with("paid 42"));
    assert_eq!(send(&app, "POST", "/owned").await.status(), 500);

    let guard = locks.mutex("a").with(waits_and_holds(Wait::None, ms(300))).lock().await.unwrap();
    sleep(secs(1)).await;
    let lost = LockResponse::from(guard.release().await.unwrap_err());
    assert_eq!((lost.kind(), lost.status().as_u16()), (RefusalKind::Lost, 500));
    assert!(lost.retry_after().is_none() && !lost.is_unexecuted());
    assert_eq!(lost.into_response().status(), 500);
}
