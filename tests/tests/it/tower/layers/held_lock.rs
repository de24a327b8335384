//! [`HeldLock`]: what a handler can ask of its lock, and do with it.

use crate::tower::prelude::*;

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
    let app = routes.clone().route_layer(routed_layer(&locks).build().unwrap());
    for (path, name) in [("/orders/42/a", ORDER), ("/orders/7/a", "order:7")] {
        let answer = seen(send(&app, "POST", path).await).await;
        let token: u64 = answer.rsplit('\n').next().unwrap().parse().unwrap();
        assert!(answer.starts_with("200 ") && token > 0, "{answer}");
        assert!(peer.mutex(name).lock().await.unwrap().token().get() > token);
    }
    for (method, is_held) in [("POST", "\ntrue"), ("GET", "\nfalse")] {
        assert!(seen(send(&app, method, "/orders/42/c").await).await.ends_with(is_held));
    }
    // Without a layer, or for a request that it does not lock, it is told what to do.
    for (app, method) in [(&app, "GET"), (&routes, "POST")] {
        let refused = seen(send(app, method, "/orders/42/a").await).await;
        assert!(refused.starts_with("500 "), "{refused}");
        assert!(refused.contains("wrap the route in a `LockLayer`"), "{refused}");
    }
}

/// What a handle says whose lock was released: it protects nothing, and is not lost otherwise.
async fn is_over(mine: &HeldLock) {
    assert!(mine.is_lost() && mine.remaining() == Duration::ZERO, "it says that it is held");
    let ended = timeout(PROMPTLY, mine.lost()).await.expect("what was released is over");
    assert!(matches!(ended, LockError::Lost { cause: LossCause::Released, .. }), "{ended}");
    timeout(PROMPTLY, mine.release()).await.expect("a hang").unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_release_early() {
    let (locks, peer, store) = two_clients();
    let lease = ms(300);
    let all = (locks.clone(), peer, store.clone());
    let handler = runs(move || {
        let (locks, peer, store) = all.clone();
        async move {
            let mine = HeldLock::current().unwrap();
            mine.release().await.unwrap();
            assert_eq!(held(&store, ORDER), 0);
            // Others have it now, and so may we, without being inside of it.
            let theirs = peer.mutex(ORDER).lock().await.unwrap();
            assert!(theirs.token() > mine.token());
            assert!(locks.mutex(ORDER).try_lock().await.unwrap().is_none());
            // No lease that runs out ends what is not under it.
            sleep(lease * 3).await;
            is_over(&mine).await;
            theirs.release().await.unwrap();
        }
    });
    for layer in [
        order_layer(&locks),
        order_layer(&locks).options(waits_and_holds(Wait::None, lease)),
        order_layer(&locks).finish_on_disconnect(true),
    ] {
        let answer = layer.build().unwrap().layer(handler.clone()).oneshot(pay()).await.unwrap();
        assert_eq!((answer.status().as_u16(), held(&store, ORDER)), (200, 0));
    }
}

/// A handle that another task has tells it of a loss, releases for it, and keeps nothing beyond the call.
#[tokio::test(start_paused = true)]
async fn another_task_may_have_a_handle() {
    let (locks, _, store) = two_clients();
    let (sender, mut handles) = mpsc::unbounded_channel();
    let handler = runs(move || {
        sender.send(HeldLock::current().unwrap()).unwrap();
        sleep(PROMPTLY)
    });
    let call = |layer: HttpLockLayerBuilder| {
        lock_tests::spawn(layer.build().unwrap().layer(handler.clone()).oneshot(pay()))
    };
    let terms = waits_and_holds(Wait::None, ms(300));
    let lost = call(order_layer(&locks).options(terms));
    let mine = handles.recv().await.unwrap();
    assert!(mine.lost().await.is_lost() && mine.is_lost() && mine.remaining() == Duration::ZERO);
    assert!(mine.release().await.is_err());
    assert_eq!(lost.await.unwrap().unwrap().status(), 500);

    let served = call(order_layer(&locks));
    let mine = handles.recv().await.unwrap();
    mine.release().await.unwrap();
    assert_eq!(held(&store, ORDER), 0);
    assert_eq!(served.await.unwrap().unwrap().status(), 200);
    is_over(&mine).await;

    let gone = call(order_layer(&locks));
    let mine = handles.recv().await.unwrap();
    gone.abort();
    free_soon(&store, ORDER).await;
    is_over(&mine).await;
}

#[tokio::test(start_paused = true)]
async fn a_body_may_release_early() {
    async fn events(mine: HeldLock, State(store): State<MemoryStore>) -> Body {
        let steps = stream::unfold(0, move |step| {
            let (mine, store) = (mine.clone(), store.clone());
            async move {
                sleep(secs(1)).await;
                if step == 1 {
                    mine.release().await.unwrap();
                }
                let text = held(&store, ORDER).to_string();
                (step < 3).then_some((Ok::<_, Infallible>(text), step + 1))
            }
        });
        Body::from_stream(steps)
    }
    // A task's release starts although the body always has its next frame.
    async fn flood(mine: HeldLock) -> Body {
        lock_tests::spawn(async move { mine.release().await });
        Body::from_stream(stream::repeat_with(|| Ok::<_, Infallible>("x")))
    }
    let (locks, _, store) = two_clients();
    let app = Router::new()
        .route("/orders/{id}/pay", post(events))
        .route("/orders/{id}/flood", post(flood))
        .route_layer(routed_layer(&locks).build().unwrap())
        .with_state(store.clone());
    let answer = seen(send(&app, "POST", "/orders/42/pay").await).await;
    assert!(answer.ends_with("\n100"), "{answer}");
    let mut body = send(&app, "POST", "/orders/42/flood").await.into_body();
    assert_eq!(held(&store, ORDER), 1);
    for _ in 0..20 {
        body.frame().await.unwrap().unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(held(&store, ORDER), 0);
}

/// The generic layer's calls have it too; a task that the handler spawns has none, also if the handler drives it.
#[tokio::test]
async fn a_plain_service_gets_its_lock() {
    let (locks, peer, _) = two_clients();
    let layer = LockLayer::new(locks, |_: &()| LockKey::new("a").map(Some));
    let service = layer.layer(service_fn(move |()| {
        let peer = peer.clone();
        async move {
            let set = tokio::task::LocalSet::new();
            let task = set.spawn_local(async { HeldLock::current().is_some() });
            let seen =
                set.run_until(async { (HeldLock::current().is_some(), task.await.unwrap()) });
            assert_eq!(seen.await, (true, false));
            HeldLock::current().unwrap().release().await?;
            peer.mutex("a").lock().await.map(drop)
        }
    }));
    timeout(PROMPTLY, service.oneshot(())).await.unwrap().unwrap();
    assert!(HeldLock::current().is_none(), "nothing is left on the thread");
}
