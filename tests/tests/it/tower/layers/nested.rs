//! [`HeldLock`] under several layers: it is the innermost one's lock, or none.

use std::io;

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use tower::ServiceBuilder;
use tower::util::BoxCloneService;

use crate::tower::prelude::*;

const TENANT: &str = "tenant:7";

type Service = BoxCloneService<Request<Body>, Response<Body>, io::Error>;

fn text(held: Option<HeldLock>) -> String {
    held.map_or_else(|| "none".to_owned(), |held| held.key().as_str().to_owned())
}

/// A service of which this is the handler.
fn service<F>(handler: impl Fn(Request<Body>) -> F + Clone + Send + 'static) -> Service
where
    F: Future<Output = Body> + Send + 'static,
{
    Service::new(service_fn(move |request| handler(request).map(|body| Ok(Response::new(body)))))
}

/// What a handler finds: by `current` (in the service's `call` and later), and by the extractors.
fn handler() -> Service {
    service(|request| {
        let called = text(HeldLock::current());
        async move {
            let (mut parts, _) = request.into_parts();
            let held =
                <HeldLock as OptionalFromRequestParts<()>>::from_request_parts(&mut parts, &());
            let optional = text(held.await.unwrap());
            let held = <HeldLock as FromRequestParts<()>>::from_request_parts(&mut parts, &());
            assert_eq!(text(held.await.ok()), optional, "the extractors agree");
            let current = text(HeldLock::current());
            assert_eq!((&called, &current), (&optional, &optional), "all ways lead to one lock");
            Body::from(current)
        }
    })
}

/// Between two layers: what was current before the inner one is so afterwards, also after a panic.
fn between(inner: Service) -> Service {
    service(move |request| {
        let inner = inner.clone();
        async move {
            let before = text(HeldLock::current());
            let answer = AssertUnwindSafe(inner.oneshot(request)).catch_unwind().await;
            assert_eq!(text(HeldLock::current()), before);
            answer.map_or(Body::from("panicked"), |answer| answer.unwrap().into_body())
        }
    })
}

fn http(layer: &HttpLockLayer, inner: Service) -> Service {
    let layers = ServiceBuilder::new().map_response(|answer: Response<_>| answer.map(Body::new));
    Service::new(layers.layer(layer.clone()).service(inner))
}

/// The generic layer around HTTP; without a key it lets everything pass.
fn generic(locks: &LockClient, key: Option<&'static str>, inner: Service) -> Service {
    let layer =
        LockLayer::new(locks.clone(), move |_: &Request<Body>| key.map(LockKey::new).transpose());
    Service::new(layer.layer(inner).map_err(io::Error::other))
}

fn builder(locks: &LockClient, key: &str) -> HttpLockLayerBuilder {
    let locked = [Method::GET, Method::POST];
    LockLayer::http().client(locks.clone()).key(key).methods(locked)
}

async fn asked(service: &Service, method: &str) -> String {
    let answer = service.clone().oneshot(request(method, "/")).await.unwrap();
    String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().into()).unwrap()
}

/// With the method that is asked, and the outer lock: what the handler finds.
async fn finds(what: &str, method: &str, inner: impl Fn(Service) -> Service, held: &str) {
    let (locks, _, _) = two_clients();
    let outer = builder(&locks, TENANT).build().unwrap();
    let by_http = http(&outer, between(inner(handler())));
    let by_generic = generic(&locks, Some(TENANT), between(inner(handler())));
    for (service, outer) in [(by_http, "http"), (by_generic, "generic")] {
        assert_eq!(asked(&service, method).await, held, "{what}, in {outer}");
    }
    assert!(HeldLock::current().is_none(), "nothing is left on the thread");
}

#[tokio::test(start_paused = true)]
async fn the_innermost_layers_lock_is_found_or_none() {
    let (locks, _, _) = two_clients();
    let order = builder(&locks, ORDER);
    let build = |layer: HttpLockLayerBuilder| {
        let layer = layer.build().unwrap();
        move |inner| http(&layer, inner)
    };
    finds("no inner layer", "POST", |inner| inner, TENANT).await;
    finds("it holds", "POST", build(order.clone()), ORDER).await;
    let other_method = build(order.clone().methods([Method::PUT]));
    finds("not its method", "POST", other_method, "none").await;
    let missing = order.clone().key("order:{header.x-order}").skip_missing_key(true);
    finds("its key is skipped", "POST", build(missing), "none").await;
    let no_key = order.clone().key_fn(|_| Ok(None));
    finds("it needs no lock", "POST", build(no_key), "none").await;
    let by_default = || LockLayer::http().client(locks.clone()).key(ORDER);
    finds("a safe method", "GET", build(by_default()), "none").await;
    let shared = by_default().share_safe_methods(true);
    finds("a shared read", "GET", build(shared), ORDER).await;
    finds("generic, it holds", "POST", |inner| generic(&locks, Some(ORDER), inner), ORDER).await;
    finds("generic, it passes", "POST", |inner| generic(&locks, None, inner), "none").await;
    let panics =
        |_| service(|_| async { std::panic::resume_unwind(Box::new("as the test wants it")) });
    for key in [Some(ORDER), None] {
        finds("a panic", "POST", |inner| generic(&locks, key, panics(inner)), "panicked").await;
    }
    // A lock that is not enforced is found only if it is held.
    let (locks, _) = clients("[lock.policies.shadow]\nkey = 'order:42'\nenforce = false\n");
    let shadow = build(LockLayer::http().client(locks.clone()).policy("shadow"));
    finds("it is free", "POST", &shadow, ORDER).await;
    let _busy = locks.mutex(ORDER).lock().await.unwrap();
    finds("it is busy", "POST", &shadow, "none").await;
}

/// A body that says nothing at first, and then which lock it finds.
fn slow() -> Service {
    service(|_| async {
        let first = stream::once(async { Ok::<_, Infallible>(String::new()) });
        let slow = stream::once(async {
            sleep(ms(10)).await;
            Ok(text(HeldLock::current()))
        });
        Body::from_stream(first.chain(slow))
    })
}

/// A body is polled inside the outer layer's hold; what it finds is the inner layer's.
#[tokio::test(start_paused = true)]
async fn in_a_body_the_innermost_layers_lock_is_found_or_none() {
    let (locks, peer, _) = two_clients();
    let outer = builder(&locks, TENANT).hold(HoldUntil::Body).build().unwrap();
    let order = builder(&locks, ORDER);
    for (inner, found) in [
        (order.clone().hold(HoldUntil::Body), ORDER),
        (order.clone().hold(HoldUntil::Response), "none"),
        (order.clone().methods([Method::PUT]), "none"),
    ] {
        let service = http(&outer, http(&inner.build().unwrap(), slow()));
        assert_eq!(asked(&service, "POST").await, found);
    }
    assert_eq!(asked(&http(&outer, slow()), "POST").await, TENANT);
    // Two layers of one key: the lock is held for as long as either layer holds it.
    let inner = order.clone().hold(HoldUntil::Body).build().unwrap();
    let outer = order.hold(HoldUntil::Response).build().unwrap();
    let answer = http(&outer, http(&inner, slow())).oneshot(request("POST", "/")).await.unwrap();
    assert!(peer.mutex(ORDER).try_lock().await.unwrap().is_none(), "the body is being sent");
    answer.into_body().collect().await.unwrap();
    is_free(&peer, ORDER, "the body has been sent").await;
}
