//! [`HeldLock`] under several layers: it is the innermost one's lock, or none.

use std::io;

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use futures_util::StreamExt;
use tower::ServiceBuilder;
use tower::util::BoxCloneService;

use crate::tower::prelude::*;

const TENANT: &str = "tenant:7";
const ORDER: &str = "order:42";

type Service = BoxCloneService<Request<Body>, Response<Body>, io::Error>;

fn text(held: Option<HeldLock>) -> String {
    held.map_or_else(|| "none".to_owned(), |held| held.key().as_str().to_owned())
}

/// What a handler finds: by `current` (in the service's `call` and later), and by the extractors.
fn handler() -> Service {
    BoxCloneService::new(service_fn(|request: Request<Body>| {
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
            Ok::<_, io::Error>(Response::new(Body::from(current)))
        }
    }))
}

/// Between two layers: what was current before the inner one is so afterwards.
fn between(inner: Service) -> Service {
    BoxCloneService::new(service_fn(move |request: Request<Body>| {
        let inner = inner.clone();
        async move {
            let before = text(HeldLock::current());
            let answer = inner.oneshot(request).await;
            assert_eq!(text(HeldLock::current()), before);
            answer
        }
    }))
}

fn http(layer: &HttpLockLayer, inner: Service) -> Service {
    let layers = ServiceBuilder::new().map_response(|answer: Response<_>| answer.map(Body::new));
    BoxCloneService::new(layers.layer(layer.clone()).service(inner))
}

/// The generic layer around HTTP; without a key it lets everything pass.
fn generic(locks: &LockClient, key: Option<&'static str>, inner: Service) -> Service {
    let layer =
        LockLayer::new(locks.clone(), move |_: &Request<Body>| key.map(LockKey::new).transpose());
    BoxCloneService::new(layer.layer(inner).map_err(io::Error::other))
}

fn builder(locks: &LockClient, key: &str) -> HttpLockLayerBuilder {
    let locked = [Method::GET, Method::POST];
    LockLayer::http().client(locks.clone()).key(key).methods(locked)
}

async fn ask(service: &Service, method: Method) -> String {
    let request = Request::builder().method(method).uri("/").body(Body::empty()).unwrap();
    let answer = service.clone().oneshot(request).await.unwrap();
    assert_eq!(answer.status(), 200);
    String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().into()).unwrap()
}

/// With the method that is asked, and the outer lock: what the handler finds.
async fn finds(what: &str, method: Method, inner: impl Fn(Service) -> Service, held: &str) {
    let (locks, _, _) = two_clients();
    let outer = builder(&locks, TENANT).build().unwrap();
    let by_http = http(&outer, between(inner(handler())));
    let by_generic = generic(&locks, Some(TENANT), between(inner(handler())));
    for (service, outer) in [(by_http, "http"), (by_generic, "generic")] {
        assert_eq!(ask(&service, method.clone()).await, held, "{what}, in {outer}");
    }
    assert!(HeldLock::current().is_none(), "nothing is left on the thread");
}

#[tokio::test(start_paused = true)]
async fn the_innermost_layers_lock_is_found_or_none() {
    let (locks, _, _) = two_clients();
    let post = Method::POST;
    let order = builder(&locks, ORDER);
    let build = |layer: HttpLockLayerBuilder| {
        let layer = layer.build().unwrap();
        move |inner| http(&layer, inner)
    };
    finds("no inner layer", post.clone(), |inner| inner, TENANT).await;
    finds("it holds", post.clone(), build(order.clone()), ORDER).await;
    let other_method = build(order.clone().methods([Method::PUT]));
    finds("not its method", post.clone(), other_method, "none").await;
    let missing = order.clone().key("order:{header.x-order}").skip_missing_key(true);
    finds("its key is skipped", post.clone(), build(missing), "none").await;
    let no_key = order.clone().key_fn(|_| Ok(None));
    finds("it needs no lock", post.clone(), build(no_key), "none").await;
    let by_default = || LockLayer::http().client(locks.clone()).key(ORDER);
    finds("a safe method", Method::GET, build(by_default()), "none").await;
    let shared = by_default().share_safe_methods(true);
    finds("a shared read", Method::GET, build(shared), ORDER).await;

    let holds = |inner| generic(&locks, Some(ORDER), inner);
    finds("generic, it holds", post.clone(), holds, ORDER).await;
    let passes = |inner| generic(&locks, None, inner);
    finds("generic, it passes", post, passes, "none").await;
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_not_enforced_is_found_only_if_it_is_held() {
    let text = "[lock.policies.shadow]\nkey = 'order:42'\nenforce = false\n";
    let config = LockConfig::from_toml(text).unwrap();
    let locks = LockClient::builder().config(config).in_memory().unwrap();
    let layer = LockLayer::http().client(locks.clone()).policy("shadow").build().unwrap();
    let inner = |inner| http(&layer, inner);
    finds("it is free", Method::POST, inner, ORDER).await;
    let _busy = locks.mutex(ORDER).lock().await.unwrap();
    finds("it is busy", Method::POST, inner, "none").await;
}

/// A body is polled inside the outer layer's hold; what it finds is the inner layer's.
#[tokio::test(start_paused = true)]
async fn in_a_body_the_innermost_layers_lock_is_found_or_none() {
    let (locks, _, _) = two_clients();
    let streams = service_fn(|_: Request<Body>| async {
        let first = stream::once(async { Ok::<_, Infallible>(String::new()) });
        let slow = stream::once(async {
            tokio::time::sleep(ms(10)).await;
            Ok(text(HeldLock::current()))
        });
        Ok::<_, io::Error>(Response::new(Body::from_stream(first.chain(slow))))
    });
    let streams = BoxCloneService::new(streams);
    let outer = builder(&locks, TENANT).hold(HoldUntil::Body).build().unwrap();
    let order = builder(&locks, ORDER);
    for (inner, found) in [
        (order.clone().hold(HoldUntil::Body), ORDER),
        (order.clone().hold(HoldUntil::Response), "none"),
        (order.clone().methods([Method::PUT]), "none"),
    ] {
        let service = http(&outer, http(&inner.build().unwrap(), streams.clone()));
        assert_eq!(ask(&service, Method::POST).await, found);
    }
    assert_eq!(ask(&http(&outer, streams), Method::POST).await, TENANT);
}

/// Two layers of one key: the lock is held for as long as either layer holds it.
#[tokio::test(start_paused = true)]
async fn the_inner_layer_of_one_key_holds_it_beyond_the_outer_one() {
    let (locks, peer, _) = two_clients();
    let slow = BoxCloneService::new(service_fn(|_: Request<Body>| async {
        let line = stream::once(async {
            sleep(secs(1)).await;
            Ok::<_, Infallible>("done")
        });
        Ok::<_, io::Error>(Response::new(Body::from_stream(line)))
    }));
    let inner = builder(&locks, ORDER).hold(HoldUntil::Body).build().unwrap();
    let outer = builder(&locks, ORDER).hold(HoldUntil::Response).build().unwrap();
    let request = Request::post("/").body(Body::empty()).unwrap();
    let answer = http(&outer, http(&inner, slow)).oneshot(request).await.unwrap();
    let mutex = peer.mutex(ORDER);
    assert!(mutex.try_lock().await.unwrap().is_none(), "the body is being sent");
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "done");
    assert!(mutex.try_lock().await.unwrap().is_some(), "the body has been sent");
}

#[tokio::test(start_paused = true)]
async fn a_panic_under_the_inner_layer_leaves_the_outer_lock_current() {
    let (locks, _, _) = two_clients();
    let panics = BoxCloneService::new(service_fn(|_: Request<Body>| async {
        std::panic::resume_unwind(Box::new("as the test wants it"))
    }));
    for key in [Some(ORDER), None] {
        let inner = generic(&locks, key, panics.clone());
        let catches = BoxCloneService::new(service_fn(move |request: Request<Body>| {
            let inner = inner.clone();
            async move {
                let ended = AssertUnwindSafe(inner.oneshot(request)).catch_unwind().await;
                assert!(ended.is_err());
                Ok::<_, io::Error>(Response::new(Body::from(text(HeldLock::current()))))
            }
        }));
        let outer = builder(&locks, TENANT).build().unwrap();
        assert_eq!(ask(&http(&outer, catches), Method::POST).await, TENANT);
    }
}
