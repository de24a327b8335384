//! What a layer costs beside its lock, in allocations.

use std::convert::Infallible;
use std::future::ready;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use lock_runtime::{LockClient, LockKey, LockKind, LockOptions};
use lock_tower::LockLayer;
use tokio::time::Instant;
use tower::{Layer, Service, service_fn};

use super::{allocations, alone};

const ROUNDS: usize = 2_000;

fn request() -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::default());
    *request.method_mut() = http::Method::POST;
    request
}

fn answer() -> Response<Full<Bytes>> {
    Response::new(Full::from(Bytes::from_static(b"done")))
}

/// Nothing is allocated for a request but its key: the same as without the layer.
#[tokio::test(flavor = "current_thread")]
async fn a_layer_allocates_nothing_but_the_key() {
    let _alone = alone().await;
    let locks = LockClient::in_memory();
    let options = LockOptions::default();
    let key = || LockKey::builder().text("order:").part("POST").build().unwrap();
    let bare = allocations(ROUNDS, async || {
        drop(request());
        let lock = locks.any_lock(LockKind::Mutex, [key()]).with(options.clone());
        let guard = lock.lock().await.unwrap();
        drop(guard.run(async { answer() }).await.unwrap());
        guard.release().await.unwrap();
    })
    .await;
    let handler = || service_fn(|_: Request<Full<Bytes>>| ready(Ok::<_, Infallible>(answer())));
    let generic = LockLayer::new(locks.clone(), move |_: &Request<Full<Bytes>>| Ok(Some(key())));
    let mut generic = generic.layer(handler());
    let generic = allocations(ROUNDS, async || drop(generic.call(request()).await.unwrap())).await;
    let http = LockLayer::http().key("order:{method}").client(locks.clone()).build().unwrap();
    let mut http = http.layer(handler());
    let http = allocations(ROUNDS, async || drop(http.call(request()).await.unwrap())).await;
    assert!(bare > ROUNDS, "the count counts nothing: {bare}");
    // A table that grows now and then is nobody's request.
    let spare = ROUNDS / 100;
    assert!(generic <= bare + spare, "generic {generic}, bare {bare}, for {ROUNDS}");
    assert!(http <= bare + spare, "http {http}, bare {bare}, for {ROUNDS}");
}

/// How long a layer takes beside its lock; for a look, with `--release --ignored --nocapture`.
#[tokio::test(flavor = "current_thread")]
#[ignore = "a measurement"]
async fn what_a_layer_costs_in_time() {
    let _alone = alone().await;
    let locks = LockClient::in_memory();
    let key = || LockKey::builder().text("order:").part("POST").build().unwrap();
    let http = LockLayer::http().key("order:{method}").client(locks.clone()).build().unwrap();
    let mut service =
        http.layer(service_fn(|_: Request<Full<Bytes>>| ready(Ok::<_, Infallible>(answer()))));
    let (mut bare, mut layered) = (Vec::new(), Vec::new());
    for _ in 0..20_000 {
        let start = Instant::now();
        drop(request());
        let lock = locks.any_lock(LockKind::Mutex, [key()]);
        let guard = lock.lock().await.unwrap();
        drop(guard.run(async { answer() }).await.unwrap());
        guard.release().await.unwrap();
        bare.push(start.elapsed());
        let start = Instant::now();
        drop(service.call(request()).await.unwrap());
        layered.push(start.elapsed());
    }
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    println!("bare {:?}, with the layer {:?}", median(bare), median(layered));
}
