//! Fault 74: five hundred HTTP requests at a time ask for the lock of one order, whose handler is slow.
//!
//! - Promised: as many wait as the layer is told, one after the other, and the rest is refused at once with 503 and
//!   `Retry-After`; the store does not notice how many there are; nothing is left afterwards.
//! - Seen: 21 requests are served, in 0.3 s; 479 are refused.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use bytes::Bytes;
use futures_util::poll;
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

test_with!(the_rest_is_refused, RedisServer::start(), async |server| {
    let client = LockClient::connect(&server.url()).await.unwrap();
    let layer = LockLayer::http().key("order:{path.id}").route("/orders/{id}/pay");
    let layer = layer.client(client.clone()).max_waiters(WAITERS).build().unwrap();
    let service = layer.layer(service_fn(pay_in_turn));
    let pay = || {
        let request = Request::post("/orders/42/pay").body(Full::default()).unwrap();
        service.clone().oneshot(request)
    };
    assert_eq!(pay().await.unwrap().status(), StatusCode::OK);
    server.reset_stats().await;
    let mut waiting = Vec::new();
    for _ in 0..REQUESTS {
        let mut paying = Box::pin(pay());
        match poll!(&mut paying) {
            Poll::Pending => waiting.push(paying),
            Poll::Ready(answer) => {
                let answer = answer.unwrap();
                assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
                let headers = answer.headers();
                assert!(headers.contains_key(header::RETRY_AFTER), "{headers:?}");
            }
        }
    }
    let paid = waiting.len();
    for answer in timeout(SOON, join_all(waiting)).await.expect("a request hangs") {
        assert_eq!(answer.unwrap().status(), StatusCode::OK);
    }
    // One has the lock, one asks the store, and the others wait behind it.
    assert!((WAITERS..=WAITERS + 2).contains(&paid), "{paid} of {REQUESTS} were served");
    let scripts = server.command_calls().await["evalsha"];
    assert!(scripts <= 4 * u64::try_from(paid).unwrap(), "{scripts} scripts for {paid} requests");
    assert_eq!(pay().await.unwrap().status(), StatusCode::OK);
    let left = server.client().keys().await;
    assert_eq!(left, ["redisson_lock_token:{order:42}"]);
});
