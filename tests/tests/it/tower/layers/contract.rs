//! What tower asks of a middleware: the ready inner service is the one that is called, readiness is
//! handed through, errors stay what they are, clones and bounds are as one expects.

use std::future::{Ready, ready};

use lock_tower::LockServiceError;
use tower::limit::ConcurrencyLimit;
use tower::{BoxError, ServiceBuilder};

use crate::tower::prelude::*;

/// Ready on the second poll, and only then to be called; a clone begins anew.
#[derive(Debug, Default)]
struct Strict {
    polls: usize,
    calls: Arc<AtomicUsize>,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self { polls: 0, calls: Arc::clone(&self.calls) }
    }
}

/// The same for requests of both layers.
macro_rules! strict {
    ($request:ty => $response:ty, $error:ty, |$asked:ident| $answer:expr) => {
        impl Service<$request> for Strict {
            type Response = $response;
            type Error = $error;
            type Future = Ready<Result<$response, $error>>;

            fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), $error>> {
                self.polls += 1;
                if self.polls >= 2 {
                    return Poll::Ready(Ok(()));
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            }

            fn call(&mut self, $asked: $request) -> Self::Future {
                assert!(self.polls >= 2, "called without having been ready");
                self.polls = 0;
                self.calls.fetch_add(1, Ordering::SeqCst);
                ready($answer)
            }
        }
    };
}

strict!(&'static str => usize, &'static str, |asked| match asked {
    "bad" => Err("refused"),
    asked => Ok(asked.len()),
});
strict!(Request<TestBody> => Response<TestBody>, Infallible, |_asked| Ok(Response::default()));

/// Locks what the request says; "free" needs no lock and "wrong" has no name.
fn key(request: &&'static str) -> Result<Option<LockKey>, LockError> {
    match *request {
        "free" => Ok(None),
        "wrong" => LockKey::new("").map(Some),
        name => LockKey::new(name).map(Some),
    }
}

#[tokio::test(start_paused = true)]
async fn the_service_that_was_ready_is_called() {
    let (locks, _, store) = two_clients();
    let mut service = LockLayer::new(locks.clone(), key).layer(Strict::default());
    let mut cx = Context::from_waker(std::task::Waker::noop());
    assert!(Service::<&str>::poll_ready(&mut service, &mut cx).is_pending());
    assert!(Service::<&str>::poll_ready(&mut service, &mut cx).is_ready());
    assert_eq!(service.get_ref().polls, 2, "asked once for each time that we were asked");
    for (n, request) in ["a", "a", "free", "bb"].into_iter().enumerate() {
        let answer = service.ready().await.unwrap().call(request).await;
        assert_eq!(answer.unwrap(), request.len());
        assert_eq!(service.get_ref().calls.load(Ordering::SeqCst), n + 1);
        assert_eq!(held(&store, request), 0, "released before the result was out");
    }
    let mut service = order_layer(&locks).build().unwrap().layer(Strict::default());
    for request in [pay(), request("GET", "/"), pay()] {
        assert_eq!(service.ready().await.unwrap().call(request).await.unwrap().status(), 200);
    }
    assert_eq!(service.into_inner().calls.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn errors_say_whose_they_are() {
    let (locks, peer, store) = two_clients();
    let layer = LockLayer::new(locks, key).options(waits(Wait::None));
    let service = layer.layer(Strict::default());
    let error = service.clone().oneshot("bad").await.unwrap_err();
    assert!(matches!(error, LockServiceError::Inner("refused")), "{error:?}");
    assert_eq!(held(&store, "bad"), 0, "a failed call gives its lock back too");
    let error = service.clone().oneshot("wrong").await.unwrap_err();
    assert!(matches!(error.lock_error(), Some(LockError::InvalidKey { .. })), "{error:?}");
    let _other = peer.mutex("a").lock().await.unwrap();
    let error = service.clone().oneshot("a").await.unwrap_err();
    assert!(matches!(error.lock_error(), Some(LockError::Busy { .. })), "{error:?}");
    assert_eq!(service.clone().oneshot("bb").await.unwrap(), 2, "another key does not wait");
    assert_eq!(service.get_ref().calls.load(Ordering::SeqCst), 2, "\"bad\" and \"bb\" got through");
    // A future is pending after its result, however that was.
    for request in ["bb", "bad", "wrong", "a"] {
        let mut service = service.clone();
        let mut call = pin!(service.ready().await.unwrap().call(request));
        let _ = call.as_mut().await;
        assert!(poll!(call.as_mut()).is_pending(), "{request}");
    }
}

/// Layers that fail with boxed errors fit on both sides, and a key function has an error of its own.
#[tokio::test(start_paused = true)]
async fn errors_of_others_pass_through() {
    let (locks, peer, _) = two_clients();
    let layer = LockLayer::with_key(locks, |pieces: &u64| match pieces {
        13 => Err(BoxError::from("unlucky")),
        _ => Ok(Some(LockKey::new("stock")?)),
    });
    let service = ServiceBuilder::new()
        .map_err(BoxError::from)
        .layer(layer.options(waits(Wait::None)))
        .timeout(secs(1))
        .service(service_fn(|pieces: u64| async move {
            if pieces == 0 { Err("none left") } else { Ok(pieces) }
        }));
    assert_eq!(service.clone().oneshot(7).await.unwrap(), 7);
    assert_eq!(service.clone().oneshot(0).await.unwrap_err().to_string(), "none left");
    type Failed = LockServiceError<BoxError>;
    let unlucky = service.clone().oneshot(13).await.unwrap_err();
    let Some(LockServiceError::Key(error)) = unlucky.downcast_ref::<Failed>() else {
        panic!("{unlucky:?}")
    };
    assert_eq!(error.to_string(), "unlucky");
    let _other = peer.mutex("stock").lock().await.unwrap();
    let refused = service.oneshot(7).await.unwrap_err();
    assert!(refused.downcast_ref::<Failed>().unwrap().lock_error().unwrap().is_busy());
}

#[test]
fn bounds_are_no_narrower_than_the_inner_services() {
    fn layer<T: Clone + Send + Sync + 'static>(_: &T) {}
    fn future<F: Future + Send>(_: F) {}

    struct NotClone;
    let (marker, locks) = (NotClone, LockClient::in_memory());
    let generic = LockLayer::new(locks.clone(), move |_: &()| {
        let _ = &marker;
        Ok(None)
    });
    let plain = service_fn(|()| async { Ok::<_, Infallible>(()) });
    let http = order_layer(&locks).build().unwrap();
    layer(&generic);
    layer(&http);
    layer(&generic.layer(plain));
    future(generic.layer(plain).call(()));
    future(http.layer(Calls::default().service()).call(pay()));
    // A service whose futures stay on one thread can be locked too.
    let local = service_fn(|()| {
        let local = std::rc::Rc::new(());
        async move {
            drop(local);
            Ok::<_, Infallible>(())
        }
    });
    drop(generic.layer(local).call(()));
}

/// A connection's service is kept after a refusal; its place in a limit further in is not.
#[tokio::test(start_paused = true)]
async fn a_refused_request_keeps_no_readiness() {
    let (locks, peer, _) = two_clients();
    let _other = peer.mutex(ORDER).lock().await.unwrap();
    let served = async |limited: ConcurrencyLimit<Handler>| {
        let other = timeout(secs(1), limited.oneshot(pay())).await;
        assert_eq!(other.expect("the place is kept").unwrap().status(), 200);
    };
    let limited = || ConcurrencyLimit::new(Calls::default().service(), 1);
    for (request, status) in [(request("POST", "/nowhere"), 400), (pay(), 409)] {
        let inner = limited();
        let mut refused =
            order_layer(&locks).wait(Wait::None).build().unwrap().layer(inner.clone());
        let answer = refused.ready().await.unwrap().call(request).await.unwrap();
        assert_eq!(answer.status(), status);
        served(inner).await;
        drop(refused);
    }
    let inner = limited();
    let generic = LockLayer::new(locks, |_: &Request<TestBody>| LockKey::new("").map(Some));
    let mut refused = generic.layer(inner.clone());
    assert!(refused.ready().await.unwrap().call(pay()).await.is_err());
    served(inner).await;
    drop(refused);
}
