//! [`HeldLock`]: what a handler can ask of its lock, and do with it.

use axum::routing::get;

use crate::tower::prelude::*;

const ORDER: &str = "order:42";

fn layer(locks: &LockClient) -> HttpLockLayerBuilder {
    LockLayer::http().key("order:{path.id}").client(locks.clone())
}

async fn send(app: &Router, method: &str, path: &str) -> String {
    let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    seen(app.clone().oneshot(request).await.unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn a_handler_gets_its_lock() {
    async fn by_extractor(held: HeldLock) -> String {
        assert!(held.remaining() > secs(20) && !held.is_lost());
        assert_eq!(HeldLock::current().unwrap().token(), held.token());
        held.token().to_string()
    }
    async fn perhaps(held: Option<HeldLock>) -> String {
        held.is_some().to_string()
    }
    let (locks, peer, _) = two_clients();
    let routes = Router::new()
        .route("/orders/{id}/a", post(by_extractor).get(by_extractor))
        .route("/orders/{id}/c", post(perhaps).get(perhaps));
    let app = routes.clone().route_layer(layer(&locks).build().unwrap());
    for path in ["/orders/42/a", "/orders/7/a"] {
        let answer = send(&app, "POST", path).await;
        let token: u64 = answer.rsplit('\n').next().unwrap().parse().unwrap();
        assert!(answer.starts_with("200 ") && token > 0, "{answer}");
        let name = if path.contains("42") { ORDER } else { "order:7" };
        assert!(peer.mutex(name).lock().await.unwrap().token().get() > token);
    }
    assert!(send(&app, "POST", "/orders/42/c").await.ends_with("\ntrue"));
    assert!(send(&app, "GET", "/orders/42/c").await.ends_with("\nfalse"), "not one of its methods");
    // Without a layer, or for a request that it does not lock, it is told what to do.
    for (app, method) in [(&app, "GET"), (&routes, "POST")] {
        let refused = send(app, method, "/orders/42/a").await;
        assert!(refused.starts_with("500 "), "{refused}");
        assert!(refused.contains("wrap the route in a `LockLayer`"), "{refused}");
    }
}

/// A service that does something while it has its lock.
async fn run<F>(
    layer: HttpLockLayerBuilder,
    handler: impl Fn() -> F + Clone + Send + 'static,
) -> Response<lock_tower::LockBody<TestBody>>
where
    F: Future<Output = ()> + Send + 'static,
{
    let service = layer.build().unwrap().layer(service_fn(move |_: Request<TestBody>| {
        let handler = handler.clone();
        async move {
            handler().await;
            Ok::<_, Infallible>(Response::new(TestBody::from("done")))
        }
    }));
    timeout(4 * PROMPTLY, service.oneshot(pay())).await.expect("a hang").unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_release_early() {
    let (locks, peer, store) = two_clients();
    let lease = ms(300);
    let handler = {
        let (peer, locks, store) = (peer.clone(), locks.clone(), store.clone());
        move || {
            let (peer, locks, store) = (peer.clone(), locks.clone(), store.clone());
            async move {
                let mine = HeldLock::current().unwrap();
                mine.release().await.unwrap();
                assert_eq!((held(&store, ORDER), mine.remaining()), (0, Duration::ZERO));
                mine.release().await.unwrap();
                // Others have it now, and so may we, without being inside of it.
                let theirs = peer.mutex(ORDER).lock().await.unwrap();
                assert!(theirs.token() > mine.token());
                assert!(locks.mutex(ORDER).try_lock().await.unwrap().is_none());
                // No lease that runs out ends what is not under it.
                sleep(lease * 3).await;
                assert!(mine.is_lost(), "it protects nothing any more");
                let ended =
                    timeout(PROMPTLY, mine.lost()).await.expect("what was released is over");
                let released = matches!(ended, LockError::Lost { cause: LossCause::Released, .. });
                assert!(released, "what was released is not lost: {ended}");
                theirs.release().await.unwrap();
            }
        }
    };
    for layer in [
        order_layer(&locks),
        order_layer(&locks).options(waits_and_holds(Wait::None, lease)),
        order_layer(&locks).finish_on_disconnect(true),
    ] {
        assert_eq!(run(layer, handler.clone()).await.status(), StatusCode::OK);
    }
    assert_eq!(held(&store, ORDER), 0);
}

#[tokio::test(start_paused = true)]
async fn another_task_may_release_it_and_learn_of_its_loss() {
    let (locks, _, store) = two_clients();
    let lease = ms(300);
    let learned = Arc::new(Mutex::new(None));
    let handler = {
        let learned = learned.clone();
        move || {
            let (learned, mine) = (learned.clone(), HeldLock::current().unwrap());
            async move {
                lock_tests::spawn(async move {
                    let lost = mine.lost().await;
                    assert!(mine.is_lost() && mine.remaining() == Duration::ZERO);
                    assert!(mine.release().await.is_err());
                    *learned.lock().unwrap() = Some(lost);
                });
                sleep(PROMPTLY).await;
            }
        }
    };
    let lost = run(order_layer(&locks).options(waits_and_holds(Wait::None, lease)), handler).await;
    assert_eq!(lost.status(), StatusCode::INTERNAL_SERVER_ERROR);
    soon!(
        "the task learns of it",
        matches!(&*learned.lock().unwrap(), Some(LockError::Lost { .. }))
    );

    let (kept, out) = (store.clone(), Arc::new(Mutex::new(None)));
    let handler = {
        let out = out.clone();
        move || {
            let (store, mine) = (kept.clone(), HeldLock::current().unwrap());
            *out.lock().unwrap() = Some(mine.clone());
            async move {
                let released = lock_tests::spawn(async move { mine.release().await });
                sleep(ms(1)).await;
                released.await.unwrap().unwrap();
                assert_eq!(held(&store, ORDER), 0);
            }
        }
    };
    assert_eq!(run(order_layer(&locks), handler).await.status(), StatusCode::OK);
    // A handle that is kept keeps nothing.
    let mine = out.lock().unwrap().take().unwrap();
    assert_eq!(mine.remaining(), Duration::ZERO);
    assert!(mine.is_lost(), "it says that it is held");
    let ended = timeout(PROMPTLY, mine.lost()).await.expect("it waits on");
    assert!(matches!(ended, LockError::Lost { cause: LossCause::Released, .. }), "{ended}");
    mine.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_handle_that_outlives_its_call_keeps_nothing() {
    let (locks, _, store) = two_clients();
    let out = Arc::new(Mutex::new(None));
    let keep = out.clone();
    let handler = move || {
        *keep.lock().unwrap() = HeldLock::current();
        sleep(secs(3600))
    };
    let gone = timeout(secs(1), run(order_layer(&locks), handler)).await;
    assert!(gone.is_err());
    free_soon(&store, ORDER).await;
    let mine = out.lock().unwrap().take().unwrap();
    assert!(mine.is_lost(), "it says that it is held");
    timeout(PROMPTLY, mine.release()).await.expect("a hang").unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_body_may_release_early() {
    async fn events(held: HeldLock, State(store): State<MemoryStore>) -> Body {
        let steps = stream::unfold(0, move |step| {
            let (held, store) = (held.clone(), store.clone());
            async move {
                sleep(secs(1)).await;
                if step == 1 {
                    held.release().await.unwrap();
                }
                let text = crate::tower::layers::world::held(&store, ORDER).to_string();
                (step < 3).then_some((Ok::<_, Infallible>(text), step + 1))
            }
        });
        Body::from_stream(steps)
    }
    let (locks, _, store) = two_clients();
    let app = Router::new()
        .route("/orders/{id}/pay", post(events))
        .route("/health", get(async || ""))
        .route_layer(layer(&locks).build().unwrap())
        .with_state(store.clone());
    let request = Request::post("/orders/42/pay").body(Body::empty()).unwrap();
    let body = app.oneshot(request).await.unwrap().into_body().collect();
    let body = timeout(4 * PROMPTLY, body).await.expect("a hang").unwrap();
    assert_eq!(body.to_bytes(), "100");
}

/// The release of a task that the handler has spawned starts although the body always has its next frame.
#[tokio::test(start_paused = true)]
async fn a_body_that_never_waits_is_released_early() {
    async fn flood() -> Body {
        let held = HeldLock::current().unwrap();
        lock_tests::spawn(async move { held.release().await });
        Body::from_stream(stream::repeat_with(|| Ok::<_, Infallible>("x")))
    }
    let (locks, _, store) = two_clients();
    let app = Router::new().route("/orders/{id}/pay", post(flood));
    let app = app.route_layer(layer(&locks).build().unwrap());
    let request = Request::post("/orders/42/pay").body(Body::empty()).unwrap();
    let mut body = app.oneshot(request).await.unwrap().into_body();
    assert_eq!(held(&store, ORDER), 1);
    for _ in 0..20 {
        body.frame().await.unwrap().unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(held(&store, ORDER), 0);
}

/// The generic layer's calls have it too.
#[tokio::test(start_paused = true)]
async fn a_plain_service_gets_its_lock() {
    let (locks, peer, _) = two_clients();
    let layer = LockLayer::new(locks, |name: &&'static str| Ok(Some(LockKey::new(name)?)));
    let service = layer.layer(service_fn(move |name: &'static str| {
        let peer = peer.clone();
        async move {
            let mine = HeldLock::current().unwrap();
            mine.release().await?;
            peer.mutex(name).lock().await.map(drop)
        }
    }));
    timeout(PROMPTLY, service.oneshot("a")).await.unwrap().unwrap();
    assert!(HeldLock::current().is_none(), "nothing is left on the thread");
}

/// A spawned task has no lock, also if the handler drives it.
#[tokio::test]
async fn tasks_that_a_handler_polls_have_no_lock() {
    let layer = LockLayer::new(LockClient::in_memory(), |_: &()| LockKey::new("a").map(Some));
    let service = layer.layer(service_fn(async |()| {
        let set = tokio::task::LocalSet::new();
        let task = set.spawn_local(async { HeldLock::current().is_some() });
        let seen = set.run_until(async { (HeldLock::current().is_some(), task.await.unwrap()) });
        Ok::<_, LockError>(seen.await)
    }));
    assert_eq!(service.oneshot(()).await.unwrap(), (true, false));
}
