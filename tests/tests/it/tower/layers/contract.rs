//! What tower asks of a middleware: the ready inner service is the one that is called, readiness is
//! handed through, errors stay what they are, clones and bounds are as one expects.

use lock_tower::LockServiceError;

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

impl Strict {
    fn ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.polls += 1;
        if self.polls >= 2 {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn take_call(&mut self) {
        assert!(self.polls >= 2, "called without having been ready");
        self.polls = 0;
        self.calls.fetch_add(1, Ordering::SeqCst);
    }
}

impl Service<&'static str> for Strict {
    type Response = usize;
    type Error = &'static str;
    type Future = std::future::Ready<Result<usize, &'static str>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.ready(cx).map(Ok)
    }

    fn call(&mut self, request: &'static str) -> Self::Future {
        self.take_call();
        std::future::ready(if request == "bad" { Err("refused") } else { Ok(request.len()) })
    }
}

impl Service<Request<TestBody>> for Strict {
    type Response = Response<TestBody>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<TestBody>, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready(cx).map(Ok)
    }

    fn call(&mut self, _: Request<TestBody>) -> Self::Future {
        self.take_call();
        std::future::ready(Ok(Response::default()))
    }
}

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
    for (n, request) in ["a", "a", "free", "bb"].into_iter().enumerate() {
        let answer = service.ready().await.unwrap().call(request).await;
        assert_eq!(answer.unwrap(), request.len());
        assert_eq!(service.get_ref().calls.load(Ordering::SeqCst), n + 1);
        assert_eq!(held(&store, request), 0, "released before the result was out");
    }
    let mut service = order_layer(&locks).build().unwrap().layer(Strict::default());
    for request in [pay(), Request::get("/").body(Full::default()).unwrap(), pay()] {
        assert_eq!(service.ready().await.unwrap().call(request).await.unwrap().status(), 200);
    }
    assert_eq!(service.get_ref().calls.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn readiness_is_the_inner_services() {
    let mut service = LockLayer::new(LockClient::in_memory(), key).layer(Strict::default());
    let mut cx = Context::from_waker(std::task::Waker::noop());
    assert!(Service::<&str>::poll_ready(&mut service, &mut cx).is_pending());
    assert!(Service::<&str>::poll_ready(&mut service, &mut cx).is_ready());
    assert_eq!(service.get_ref().polls, 2, "asked once for each time that we were asked");
    assert_eq!(service.into_inner().polls, 2);
}

#[derive(Debug, Clone)]
struct NeverReady;

impl Service<&'static str> for NeverReady {
    type Response = ();
    type Error = &'static str;
    type Future = std::future::Ready<Result<(), &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        Poll::Ready(Err("closed for today"))
    }

    fn call(&mut self, _: &'static str) -> Self::Future {
        unreachable!("never ready")
    }
}

#[tokio::test(start_paused = true)]
async fn errors_say_whose_they_are() {
    let (locks, peer, store) = two_clients();
    let layer = LockLayer::new(locks, key).options(options(Wait::None));
    let error = layer.layer(NeverReady).oneshot("a").await.unwrap_err();
    assert!(matches!(error, LockServiceError::Inner("closed for today")), "{error:?}");

    let service = layer.layer(Strict::default());
    let error = service.clone().oneshot("bad").await.unwrap_err();
    assert!(matches!(error, LockServiceError::Inner("refused")), "{error:?}");
    assert_eq!(held(&store, "bad"), 0, "a failed call gives its lock back too");

    let error = service.clone().oneshot("wrong").await.unwrap_err();
    assert!(matches!(error.lock_error(), Some(LockError::InvalidKey { .. })), "{error:?}");

    let _other = peer.mutex("a").lock().await.unwrap();
    let error = service.clone().oneshot("a").await.unwrap_err();
    assert!(matches!(error.lock_error(), Some(LockError::Busy { .. })), "{error:?}");
    assert_eq!(service.get_ref().calls.load(Ordering::SeqCst), 1, "only \"bad\" got through");
}

#[tokio::test(start_paused = true)]
async fn one_at_a_time_per_key() {
    let (locks, peer, _) = two_clients();
    let inside = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let work = {
        let (inside, most) = (inside.clone(), most.clone());
        service_fn(move |_: &'static str| {
            let (inside, most) = (inside.clone(), most.clone());
            async move {
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                sleep(ms(10)).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                Ok::<_, Infallible>(())
            }
        })
    };
    let service = |client| LockLayer::new(client, key).layer(work.clone());
    let (here, there) = (service(locks), service(peer));
    let run = async |keys: [&'static str; 2]| {
        most.store(0, Ordering::SeqCst);
        let calls = (0..10).flat_map(|_| {
            [here.clone().oneshot(keys[0]), there.clone().oneshot(keys[1])].map(lock_tests::spawn)
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap().unwrap();
        }
        most.load(Ordering::SeqCst)
    };
    assert_eq!(run(["a", "a"]).await, 1);
    assert_eq!(run(["a", "b"]).await, 2, "different keys do not wait for each other");
    assert_eq!(run(["free", "free"]).await, 20, "and without a lock no task waits");
}

#[tokio::test(start_paused = true)]
async fn what_is_enclosed_re_enters() {
    let (locks, peer, store) = two_clients();
    let terms = options(Wait::UpTo(secs(1)));
    let layer = LockLayer::new(locks.clone(), key).options(terms);
    let handler = service_fn(move |name: &'static str| {
        let (nested, other) = (locks.clone(), peer.clone());
        // In `call`, where no future of the handler is polled yet.
        let early = nested.mutex(name).lock().now_or_never().expect("nothing to wait for");
        async move {
            let early = early?;
            assert!(nested.mutex(name).try_lock().await?.is_none(), "beside it, not inside of it");
            let late = early.run(nested.mutex(name).lock()).await??;
            assert_eq!(early.token(), late.token());
            assert!(other.mutex(name).try_lock().await?.is_none(), "others are kept out");
            Ok::<_, LockError>(late.token())
        }
    });
    let once = layer.layer(handler.clone()).oneshot("a").await.unwrap();
    free_soon(&store, "a").await;
    let twice = layer.layer(layer.layer(handler)).oneshot("a").await.unwrap();
    assert!(twice > once);
}

#[test]
fn bounds_are_no_narrower_than_the_inner_services() {
    fn layer<T: Clone + Send + Sync + 'static>(_: &T) {}
    fn future<F: Future + Send>(_: F) {}

    struct NotClone;
    let marker = NotClone;
    let generic = LockLayer::new(LockClient::in_memory(), move |_: &()| {
        let _ = &marker;
        Ok(None)
    });
    layer(&generic);
    layer(&order_layer(&LockClient::in_memory()).build().unwrap());
    let plain = service_fn(|()| async { Ok::<_, Infallible>(()) });
    layer(&generic.layer(plain));
    future(generic.layer(plain).call(()));
    let layered = order_layer(&LockClient::in_memory()).build().unwrap();
    future(layered.layer(Calls::default().service()).call(pay()));

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

/// A key function with an error of its own.
#[tokio::test(start_paused = true)]
async fn a_key_function_may_fail_in_its_own_way() {
    #[derive(Debug)]
    struct Nameless(u32);
    impl std::fmt::Display for Nameless {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "job {} has no name", self.0)
        }
    }
    impl std::error::Error for Nameless {}
    let layer = LockLayer::with_key(LockClient::in_memory(), |job: &u32| match job {
        0 => Ok(None),
        job => Err(Nameless(*job)),
    });
    let service = tower::ServiceBuilder::new()
        .layer(layer)
        .service(service_fn(|job: u32| async move { Ok::<_, Infallible>(job) }));
    assert_eq!(service.clone().oneshot(0).await.unwrap(), 0);
    let error = service.oneshot(7).await.unwrap_err();
    assert!(error.lock_error().is_none());
    let LockServiceError::Key(error) = error else { panic!("{error:?}") };
    assert_eq!(error.to_string(), "job 7 has no name");
}

#[tokio::test(start_paused = true)]
async fn a_future_is_pending_after_its_result() {
    let (locks, peer, _) = two_clients();
    let layer = LockLayer::new(locks, key).options(options(Wait::None));
    let mut service = layer.layer(Strict::default());
    let held = peer.mutex("held").lock().await.unwrap();
    for request in ["a", "bad", "wrong", "held"] {
        let mut call = std::pin::pin!(service.ready().await.unwrap().call(request));
        let _ = call.as_mut().await;
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(call.as_mut().poll(&mut cx).is_pending(), "{request}");
    }
    drop(held);
}

/// Layers that fail with boxed errors fit on both sides: the layer's error over a boxed one is an error itself.
#[tokio::test(start_paused = true)]
async fn boxed_errors_pass_through() {
    let (locks, peer, _) = two_clients();
    let layer = LockLayer::new(locks, |_: &u64| LockKey::new("stock").map(Some));
    let service = tower::ServiceBuilder::new()
        .map_err(tower::BoxError::from)
        .layer(layer.options(waits(Wait::None)))
        .timeout(secs(1))
        .service(service_fn(|pieces: u64| async move {
            if pieces == 0 { Err("none left") } else { Ok(pieces) }
        }));
    assert_eq!(service.clone().oneshot(7).await.unwrap(), 7);
    let failed = service.clone().oneshot(0).await.unwrap_err();
    assert_eq!(failed.to_string(), "none left");
    let _other = peer.mutex("stock").lock().await.unwrap();
    let refused = service.oneshot(7).await.unwrap_err();
    let refused = refused.downcast_ref::<LockServiceError<tower::BoxError>>().unwrap();
    assert!(refused.lock_error().is_some_and(LockError::is_busy));
}
