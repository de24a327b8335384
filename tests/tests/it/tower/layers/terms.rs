//! On what terms requests are locked: deadlines, sides, statuses, handlers that outlive their client.

use lock_tower::http::{LockResponse, RefusalKind, RequestDeadline};

use crate::tower::prelude::*;

const ORDER: &str = "order:42";

/// `wait = min(policy, deadline)`.
#[tokio::test(start_paused = true)]
async fn a_request_waits_no_longer_than_it_is_of_use() {
    let (locks, peer, _) = two_clients();
    let _other = peer.mutex(ORDER).lock().await.unwrap();
    let second = secs(1);
    for (wait, deadline, waited, status, kind) in [
        (Wait::Forever, second, second, 503, "lock-deadline"),
        (Wait::UpTo(3 * second), second, second, 503, "lock-deadline"),
        (Wait::UpTo(second), 3 * second, second, 503, "lock-timeout"),
        (Wait::None, second, Duration::ZERO, 409, "lock-busy"),
        (Wait::UpTo(second), Duration::ZERO, Duration::ZERO, 503, "lock-deadline"),
    ] {
        let layer = order_layer(&locks).wait(wait).build().unwrap();
        let (mut request, start) = (pay(), Instant::now());
        request.extensions_mut().insert(RequestDeadline(start + deadline));
        let refused = ask(&layer, request).await;
        assert_eq!(
            (refused.status().as_u16(), start.elapsed().as_secs()),
            (status, waited.as_secs())
        );
        let grpc = {
            let mut request = pay();
            let headers = request.headers_mut();
            headers.insert("content-type", "application/grpc".parse().unwrap());
            let micros = format!("{}u", deadline.as_micros());
            headers.insert("grpc-timeout", micros.parse().unwrap());
            ask(&layer, request).await
        };
        let code = match kind {
            "lock-deadline" => "4",
            "lock-busy" => "10",
            _ => "14",
        };
        assert_eq!(grpc.headers()["grpc-status"], code, "{wait:?} {deadline:?}");
    }
    // One that waits is served if the lock comes in time.
    let layer = order_layer(&locks).build().unwrap();
    let mut request = pay();
    request.extensions_mut().insert(RequestDeadline(Instant::now() + 2 * second));
    let (served, ()) = tokio::join!(ask(&layer, request), async {
        sleep(second).await;
        _other.release().await.unwrap();
    });
    assert_eq!(served.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn readers_share_and_writers_do_not() {
    let (locks, peer, _) = two_clients();
    let shared = |locks: &LockClient| {
        let layer = order_layer(locks).share_safe_methods(true).wait(Wait::None);
        layer.build().unwrap()
    };
    let layer = shared(&locks);
    let statuses = async || {
        let mut statuses = Vec::new();
        for method in ["GET", "HEAD", "POST", "OPTIONS"] {
            statuses.push(status(&layer, request(method, "/orders/42/pay")).await);
        }
        statuses
    };
    assert_eq!(statuses().await, [200, 200, 200, 200]);
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
    let (reader, fair) = (peer.rw_lock("order:42"), peer.fair_mutex("order:7"));
    let _reads = reader.read().await.unwrap();
    let layer = order_layer(&locks).kind(LockKind::Read).wait(Wait::None).build().unwrap();
    assert_eq!(ask(&layer, pay()).await.status(), StatusCode::OK);
    let _fair = fair.lock().await.unwrap();
    let layer = order_layer(&locks).kind(LockKind::Fair).wait(Wait::None).build().unwrap();
    assert_eq!(status(&layer, request("POST", "/orders/7/pay")).await, 409);
    // Another kind at the name is nothing that waiting mends.
    let collision = seen(ask(&layer, pay()).await).await;
    assert!(collision.starts_with("500 ") && collision.contains("misconfigured"), "{collision}");
}

#[tokio::test(start_paused = true)]
async fn busy_is_what_the_layer_calls_it() {
    let (locks, peer, _) = two_clients();
    let _other = peer.mutex(ORDER).lock().await.unwrap();
    let waits = [Wait::None, Wait::UpTo(secs(1))];
    for (busy, statuses) in [
        (StatusCode::CONFLICT, [409, 503]),
        (StatusCode::LOCKED, [423, 503]),
        (StatusCode::TOO_MANY_REQUESTS, [429, 429]),
        (StatusCode::SERVICE_UNAVAILABLE, [503, 503]),
    ] {
        for (wait, status) in waits.into_iter().zip(statuses) {
            let layer = order_layer(&locks).busy(busy).wait(wait).build().unwrap();
            let refused = ask(&layer, pay()).await;
            assert_eq!(refused.status().as_u16(), status, "{busy:?} {wait:?}");
            assert_eq!(refused.headers()["retry-after"], "1");
            let refused = seen(refused).await;
            assert!(
                refused.contains(&format!(r#""status":{status},"executed":false"#)),
                "{refused}"
            );
        }
    }
}

/// The store was last asked when the wait began.
#[tokio::test(start_paused = true)]
async fn a_busy_answer_knows_the_holders_end() {
    let (locks, peer, _) = two_clients();
    let terms = |wait| waits_and_holds(wait, secs(20));
    let _other = peer.mutex(ORDER).with(terms(Wait::None)).lock().await.unwrap();
    let error = locks.mutex(ORDER).with(terms(Wait::None)).lock().await.unwrap_err();
    let left = error.holder_remaining().unwrap();
    assert!(left > secs(19) && left <= secs(20), "{left:?}");
    for wait in [Wait::None, Wait::UpTo(secs(2))] {
        let layer = order_layer(&locks).options(terms(wait)).build().unwrap();
        let refused = ask(&layer, pay()).await;
        let seconds: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
        assert!((18..=25).contains(&seconds), "{wait:?}: {seconds}");
    }
}

/// With a watchdog the rest of the lease says nothing: what the requests before took does.
#[tokio::test(start_paused = true)]
async fn a_busy_answer_knows_how_long_requests_take() {
    let (locks, peer, _) = two_clients();
    let layer = order_layer(&locks).wait(Wait::None).build().unwrap();
    let slow = service_fn(async |_: Request<TestBody>| {
        sleep(secs(8)).await;
        Ok::<_, Infallible>(Response::new(TestBody::default()))
    });
    let service = layer.layer(slow);
    assert_eq!(service.clone().oneshot(pay()).await.unwrap().status(), StatusCode::OK);
    let _other = peer.mutex(ORDER).lock().await.unwrap();
    let refused = service.oneshot(pay()).await.unwrap();
    let seconds: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
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
        let (status, after) = (refusal.status(), refusal.retry_after().unwrap());
        assert!(refusal.is_unexecuted() && !refusal.is_grpc() && refusal.detail().is_none());
        Response::builder()
            .status(status)
            .header("x-come-back", after.as_secs())
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
        let handler = service_fn({
            let (go, finished) = (go.clone(), finished.clone());
            move |_: Request<TestBody>| {
                let (go, finished) = (go.clone(), finished.clone());
                async move {
                    go.notified().await;
                    finished.add();
                    Ok::<_, Infallible>(Response::new(TestBody::from("done")))
                }
            }
        });
        let layer = order_layer(&locks).finish_on_disconnect(finishes).build().unwrap();
        let service = layer.layer(handler);
        let gone = timeout(secs(1), service.clone().oneshot(pay())).await;
        assert!(gone.is_err());
        sleep(secs(60)).await;
        assert_eq!(held(&store, ORDER), expected, "{finishes}");
        if finishes {
            // A second request waits for its turn, and gives its place up when its client goes.
            let gone = timeout(secs(1), service.clone().oneshot(pay())).await;
            assert!(gone.is_err());
        }
        go.notify_waiters();
        free_soon(&store, ORDER).await;
        assert_eq!(finished.count(), expected);
        let answer = lock_tests::spawn(service.oneshot(pay()));
        free_to_go(&go, &answer).await;
        assert_eq!(answer.await.unwrap().unwrap().status(), StatusCode::OK);
        assert_eq!(held(&store, ORDER), 0, "released before the answer");
    }
}

async fn free_to_go<T>(go: &Notify, task: &tokio::task::JoinHandle<T>) {
    soon!("the handler ends", {
        go.notify_waiters();
        task.is_finished()
    });
}

#[test]
fn contradictions_are_found_when_the_layer_is_built() {
    let layer = || LockLayer::http().key("nightly");
    let zero = LockOptions::new().max_hold(Duration::ZERO);
    for (builder, reason) in [
        (layer().options(zero), "max_hold is zero"),
        (layer().routes().route("/a"), "omit `route`"),
        (layer().client(LockClient::in_memory()).policy("a"), "the client has no configuration"),
        (layer().client(LockClient::in_memory()).routes(), "no routes; set one with"),
    ] {
        let message = builder.build().unwrap_err().to_string();
        assert!(message.contains(reason), "{message}");
    }
}
