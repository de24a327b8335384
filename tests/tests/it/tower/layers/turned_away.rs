//! Requests that the layer refuses, and what they leave behind in the service that they never reached.

use tower::limit::ConcurrencyLimit;

use crate::tower::layers::policies::config;
use crate::tower::prelude::*;

const ORDER: &str = "order:42";

/// A connection's service is kept after a refusal; its place in a limit further in is not.
#[tokio::test(start_paused = true)]
async fn a_refused_request_keeps_no_readiness() {
    let (locks, peer, _) = two_clients();
    let _other = peer.mutex(ORDER).lock().await.unwrap();
    for (request, status) in [(request("POST", "/nowhere"), 400), (pay(), 409)] {
        let limited = ConcurrencyLimit::new(Calls::default().service(), 1);
        let layer = order_layer(&locks).wait(Wait::None).build().unwrap();
        let mut refused = layer.layer(limited.clone());
        let answer = refused.ready().await.unwrap().call(request).await.unwrap();
        assert_eq!(answer.status(), status);
        let other = timeout(secs(1), limited.oneshot(pay())).await;
        assert_eq!(other.expect("the place is kept").unwrap().status(), StatusCode::OK);
        drop(refused);
    }
    // The generic layer likewise.
    let limited = ConcurrencyLimit::new(Calls::default().service(), 1);
    let layer = LockLayer::new(locks, |_: &Request<TestBody>| LockKey::new("").map(Some));
    let mut refused = layer.layer(limited.clone());
    assert!(refused.ready().await.unwrap().call(pay()).await.is_err());
    let other = timeout(secs(1), limited.oneshot(pay())).await;
    assert_eq!(other.expect("the place is kept").unwrap().status(), StatusCode::OK);
    drop(refused);
}

#[tokio::test(start_paused = true)]
async fn a_generic_layer_follows_the_clients_defaults() {
    let text = |wait: &str| config(&format!("[lock.defaults]\nwait = '{wait}'"));
    let locks = LockClient::builder().config(text("1s")).in_memory().unwrap();
    let _other = locks.mutex(ORDER).lock().await.unwrap();
    let layer =
        || LockLayer::new(locks.clone(), |_: &Request<TestBody>| LockKey::new(ORDER).map(Some));
    let (follows, told) =
        (layer(), layer().options(waits_and_holds(Wait::UpTo(secs(3)), secs(30))));
    for wait in [1, 5] {
        locks.reload(text(&format!("{wait}s"))).unwrap();
        for (layer, expected) in [(&follows, wait), (&told, 3)] {
            let start = tokio::time::Instant::now();
            let call = layer.layer(Calls::default().service()).oneshot(pay());
            assert!(timeout(secs(60), call).await.expect("a hang").is_err());
            assert_eq!(start.elapsed().as_secs(), expected);
        }
    }
}

/// A router has GET's handler answer HEAD, so both are about the same thing.
#[tokio::test(start_paused = true)]
async fn head_locks_as_get() {
    let (locks, ..) = two_clients();
    let builder = || LockLayer::http().client(locks.clone()).key("{method}:order").wait(Wait::None);
    let _get = locks.mutex("GET:order").lock().await.unwrap();
    let both = builder().methods([Method::GET]).build().unwrap();
    let each = builder().methods([Method::HEAD]).build().unwrap();
    for (layer, method, status) in [(&both, "GET", 409), (&both, "HEAD", 409), (&each, "HEAD", 200)]
    {
        assert_eq!(super::world::status(layer, request(method, "/")).await, status, "{method}");
    }
}
