//! Fault 74: five hundred HTTP requests at a time ask for the lock of one order, whose handler is slow.
//!
//! - Promised: as many wait as the layer is told, one after the other, and the rest is refused at once with 503 and
//!   `Retry-After`; the store does not notice how many there are; nothing is left afterwards.
//! - Seen: 21 requests are served, in 0.3 s; 479 are refused.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use lock_tower::LockLayer;
use tower::{Layer, ServiceExt, service_fn};

use crate::prelude::*;

const REQUESTS: usize = 500;
const WAITERS: usize = 20;

/// How many requests are in the handler.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

async fn pay_in_turn(_: Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, Infallible> {
    assert_eq!(INSIDE.fetch_add(1, Ordering::SeqCst), 0, "two at a time");
    sleep(ms(10)).await;
    INSIDE.fetch_sub(1, Ordering::SeqCst);
    Ok(Response::new(Full::from("paid")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rest_is_refused() {
    let server = RedisServer::start().await;
    let client = LockClient::connect(&server.url()).await.unwrap();
    let layer = LockLayer::http().key("order:{path.id}").route("/orders/{id}/pay");
    let layer = layer.client(client.clone()).max_waiters(WAITERS).build().unwrap();
    let service = layer.layer(service_fn(pay_in_turn));
    let pay = async || {
        let request = Request::post("/orders/42/pay").body(Full::default()).unwrap();
        let start = Instant::now();
        let answer = service.clone().oneshot(request).await.unwrap();
        (answer, start.elapsed())
    };
    assert_eq!(pay().await.0.status(), StatusCode::OK);
    server.reset_stats().await;
    let answers =
        timeout(SOON, join_all((0..REQUESTS).map(|_| pay()))).await.expect("a request hangs");
    let mut paid = 0;
    for (answer, waited) in answers {
        if answer.status() == StatusCode::OK {
            paid += 1;
            continue;
        }
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(answer.headers().contains_key(header::RETRY_AFTER), "{:?}", answer.headers());
        assert!(waited < secs(1), "refused only after {waited:?}");
    }
    // One has the lock, one asks the store, and the others wait behind it.
    assert!((WAITERS..=WAITERS + 2).contains(&paid), "{paid} of {REQUESTS} were served");
    let scripts = server.command_calls().await["evalsha"];
    assert!(scripts <= 4 * u64::try_from(paid).unwrap(), "{scripts} scripts for {paid} requests");
    assert_eq!(pay().await.0.status(), StatusCode::OK);
    let left = server.client().keys().await;
    assert_eq!(left, ["redisson_lock_token:{order:42}"]);
}
