//! On what terms requests are locked: deadlines, sides, statuses, handlers that outlive their client.

use lock_tower::http::{LockResponse, RefusalKind, RequestDeadline};

use crate::tower::prelude::*;

fn due(after: Duration) -> Request<TestBody> {
    let mut request = pay();
    request.extensions_mut().insert(RequestDeadline(Instant::now() + after));
    request
}

/// `wait = min(policy, deadline)`.
#[tokio::test(start_paused = true)]
async fn a_request_waits_no_longer_than_it_is_of_use() {
    let (locks, peer, _) = two_clients();
    let other = peer.mutex(ORDER).lock().await.unwrap();
    let second = secs(1);
    for (wait, deadline, waited, status, code) in [
        (Wait::Forever, second, second, 503, "4"),
        (Wait::UpTo(3 * second), second, second, 503, "4"),
        (Wait::UpTo(second), 3 * second, second, 503, "14"),
        (Wait::None, second, Duration::ZERO, 409, "10"),
        (Wait::UpTo(second), Duration::ZERO, Duration::ZERO, 503, "4"),
    ] {
        let layer = order_layer(&locks).wait(wait).build().unwrap();
        let start = Instant::now();
        let refused = ask(&layer, due(deadline)).await;
        assert_eq!(start.elapsed().as_secs(), waited.as_secs(), "{wait:?} {deadline:?}");
        assert_eq!(refused.status(), status, "{wait:?} {deadline:?}");
        let mut grpc = pay();
        grpc.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
        let micros = format!("{}u", deadline.as_micros());
        grpc.headers_mut().insert("grpc-timeout", micros.parse().unwrap());
        let grpc = ask(&layer, grpc).await;
        assert_eq!(grpc.headers()["grpc-status"], code, "{wait:?} {deadline:?}");
    }
    // One that waits is served if the lock comes in time.
    let layer = order_layer(&locks).build().unwrap();
    let (served, ()) = tokio::join!(ask(&layer, due(2 * second)), async {
        sleep(second).await;
        other.release().await.unwrap();
    });
    assert_eq!(served.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn readers_share_and_writers_do_not() {
    let (locks, peer, _) = two_clients();
    let layer = order_layer(&locks).share_safe_methods(true).wait(Wait::None).build().unwrap();
    let statuses = async || {
        let methods = ["GET", "HEAD", "POST", "OPTIONS"];
        join_all(methods.map(|it| status(&layer, request(it, "/orders/42/pay")))).await
    };
    let reader = peer.rw_lock(ORDER).read().await.unwrap();
    assert_eq!(statuses().await, [200, 200, 409, 200]);
    reader.release().await.unwrap();
    let writer = peer.rw_lock(ORDER).write().await.unwrap();
    assert_eq!(statuses().await, [409, 409, 409, 200]);
    writer.release().await.unwrap();
    for kind in [LockKind::Fair, LockKind::Read] {
        let layer = order_layer(&locks).share_safe_methods(true).kind(kind);
        let message = layer.build().unwrap_err().to_string();
        assert!(message.contains(&format!("the kind is {kind}; omit the kind")), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_kind_is_the_layers() {
    let (locks, peer, _) = two_clients();
    let _reads = peer.rw_lock(ORDER).read().await.unwrap();
    let _fair = peer.fair_mutex("order:7").lock().await.unwrap();
    let layer = |kind| order_layer(&locks).kind(kind).wait(Wait::None).build().unwrap();
    assert_eq!(status(&layer(LockKind::Read), pay()).await, 200);
    let seven = request("POST", "/orders/7/pay");
    assert_eq!(status(&layer(LockKind::Fair), seven).await, 409);
    // Another kind at the name is nothing that waiting mends.
    let collision = seen(ask(&layer(LockKind::Fair), pay()).await).await;
    assert!(collision.starts_with("500 ") && collision.contains("misconfigured"), "{collision}");
}

#[tokio::test(start_paused = true)]
async fn busy_is_what_the_layer_calls_it() {
    let (locks, peer, _) = two_clients();
    let _other = peer.mutex(ORDER).lock().await.unwrap();
    for (busy, statuses) in [
        (StatusCode::CONFLICT, [409, 503]),
        (StatusCode::LOCKED, [423, 503]),
        (StatusCode::TOO_MANY_REQUESTS, [429, 429]),
        (StatusCode::SERVICE_UNAVAILABLE, [503, 503]),
    ] {
        for (wait, status) in [Wait::None, Wait::UpTo(secs(1))].into_iter().zip(statuses) {
            let layer = order_layer(&locks).busy(busy).wait(wait).build().unwrap();
            let refused = ask(&layer, pay()).await;
            assert_eq!(refused.status(), status, "{busy:?} {wait:?}");
            assert_eq!(retry_after(&refused), 1);
            let body = format!(r#""status":{status},"executed":false"#);
            assert!(seen(refused).await.contains(&body), "{busy:?} {wait:?}");
        }
    }
}

/// The store was last asked when the wait began. With a watchdog the rest of the lease says nothing: what the requests
/// before took does.
#[tokio::test(start_paused = true)]
async fn a_busy_answer_knows_when_to_come_back() {
    let (locks, peer, _) = two_clients();
    let terms = |wait| waits_and_holds(wait, secs(20));
    let other = peer.mutex(ORDER).with(terms(Wait::None)).lock().await.unwrap();
    let error = locks.mutex(ORDER).with(terms(Wait::None)).lock().await.unwrap_err();
    let left = error.holder_remaining().unwrap();
    assert!(left > secs(19) && left <= secs(20), "{left:?}");
    for wait in [Wait::None, Wait::UpTo(secs(2))] {
        let layer = order_layer(&locks).options(terms(wait)).build().unwrap();
        let seconds = retry_after(&ask(&layer, pay()).await);
        assert!((18..=25).contains(&seconds), "{wait:?}: {seconds}");
    }
    other.release().await.unwrap();
    let layer = order_layer(&locks).wait(Wait::None).build().unwrap();
    let service = layer.layer(runs(|| sleep(secs(8))));
    assert_eq!(service.clone().oneshot(pay()).await.unwrap().status(), 200);
    let _other = peer.mutex(ORDER).lock().await.unwrap();
    let seconds = retry_after(&service.oneshot(pay()).await.unwrap());
    assert!((8..=10).contains(&seconds), "{seconds}");
}

#[tokio::test(start_paused = true)]
async fn the_answer_is_the_applications() {
    let (locks, peer, _) = two_clients();
    let _other = peer.mutex(ORDER).lock().await.unwrap();
    let respond = |refusal: LockResponse, request: &http::request::Parts| {
        if refusal.kind() != RefusalKind::Busy {
            return refusal.into_http();
        }
        assert_eq!((&request.method, request.uri.path()), (&Method::POST, "/orders/42/pay"));
        assert!(refusal.is_unexecuted() && !refusal.is_grpc() && refusal.detail().is_none());
        Response::builder()
            .status(refusal.status())
            .header("x-come-back", refusal.retry_after().unwrap().as_secs())
            .body(Bytes::from_static(b"<h1>One moment</h1>"))
            .unwrap()
    };
    let layer = order_layer(&locks).wait(Wait::None).responder(respond).build().unwrap();
    let answer = seen(ask(&layer, pay()).await).await;
    assert_eq!(answer, "409 Conflict\nx-come-back: 1\n\n<h1>One moment</h1>");
    let answer = seen(ask(&layer, request("POST", "/elsewhere")).await).await;
    assert!(answer.starts_with("400 ") && answer.contains("lock-key-missing"), "{answer}");
}

/// A handler that waits to be told, under a client that goes.
#[tokio::test(start_paused = true)]
async fn a_handler_may_outlive_its_client() {
    for finishes in [false, true] {
        let expected = usize::from(finishes);
        let (locks, _, store) = two_clients();
        let (go, finished) = (Arc::new(Notify::new()), Calls::default());
        let parts = (go.clone(), finished.clone());
        let handler = runs(move || {
            let (go, finished) = parts.clone();
            async move {
                go.notified().await;
                finished.add();
            }
        });
        let layer = order_layer(&locks).finish_on_disconnect(finishes).build().unwrap();
        let service = layer.layer(handler);
        assert!(timeout(secs(1), service.clone().oneshot(pay())).await.is_err());
        sleep(secs(60)).await;
        assert_eq!(held(&store, ORDER), expected, "{finishes}");
        if finishes {
            // A second request waits for its turn, and gives its place up when its client goes.
            assert!(timeout(secs(1), service.clone().oneshot(pay())).await.is_err());
        }
        go.notify_waiters();
        free_soon(&store, ORDER).await;
        assert_eq!(finished.count(), expected);
        let answer = lock_tests::spawn(service.oneshot(pay()));
        soon!("the handler ends", {
            go.notify_waiters();
            answer.is_finished()
        });
        assert_eq!(answer.await.unwrap().unwrap().status(), 200);
        assert_eq!(held(&store, ORDER), 0, "released before the answer");
    }
}

#[test]
fn contradictions_are_found_when_the_layer_is_built() {
    let layer = || LockLayer::http().key("nightly");
    let plain = || layer().client(LockClient::in_memory());
    for (builder, reason) in [
        (layer().options(LockOptions::new().max_hold(Duration::ZERO)), "max_hold is zero"),
        (layer().routes().route("/a"), "omit `route`"),
        (plain().policy("a"), "the client has no configuration"),
        (plain().routes(), "no routes; set one with"),
    ] {
        let message = builder.build().unwrap_err().to_string();
        assert!(message.contains(reason), "{message}");
    }
}
