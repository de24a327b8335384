//! Where other layers belong beside a lock layer: what the chapter "Where to put it" says, tried.

use axum::BoxError;
use axum::error_handling::HandleErrorLayer;
use axum::middleware::map_response;
use tower::ServiceBuilder;
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::load_shed::LoadShedLayer;
use tower::timeout::TimeoutLayer;
use tower::timeout::error::Elapsed;

use crate::tower::prelude::*;

/// A limit of four requests, and 503 for others.
macro_rules! limit {
    () => {
        ServiceBuilder::new()
            .layer(HandleErrorLayer::new(async |_: BoxError| StatusCode::SERVICE_UNAVAILABLE))
            .layer(LoadShedLayer::new())
            .layer(GlobalConcurrencyLimitLayer::new(4))
    };
}

fn app() -> Router {
    Router::new().route("/orders/{id}/pay", post(async || "done"))
}

/// Outside, a request that waits for its lock has a permit, and others are refused for whom the lock is free.
#[tokio::test(start_paused = true)]
async fn limits_belong_inside() {
    for (outside, expected) in [(true, 503), (false, 200)] {
        let (locks, peer, _) = two_clients();
        let busy = peer.mutex(ORDER).lock().await.unwrap();
        let layer = routed_layer(&locks).build().unwrap();
        let app = match outside {
            true => app().route_layer(layer).route_layer(limit!()),
            false => app().route_layer(limit!()).route_layer(layer),
        };
        let waiting = [(); 4].map(|()| {
            let app = app.clone();
            lock_tests::spawn(async move { send(&app, "POST", "/orders/42/pay").await.status() })
        });
        // On the paused clock, not before they wait.
        sleep(ms(100)).await;
        let other = send(&app, "POST", "/orders/7/pay").await;
        assert_eq!(other.status(), expected, "outside: {outside}");
        busy.release().await.unwrap();
        assert_eq!(joined(waiting).await, [200; 4]);
    }
}

#[tokio::test]
async fn what_adds_headers_belongs_outside() {
    async fn cors(mut response: Response<Body>) -> Response<Body> {
        response.headers_mut().insert("access-control-allow-origin", "*".parse().unwrap());
        response
    }
    let (locks, peer, _) = two_clients();
    let _busy = peer.mutex(ORDER).lock().await.unwrap();
    let layer = || routed_layer(&locks).wait(Wait::None).build().unwrap();
    let inside = app().layer(map_response(cors)).route_layer(layer());
    let outside = app().route_layer(layer()).layer(map_response(cors));
    for (app, has_it) in [(inside, false), (outside, true)] {
        let refused = send(&app, "POST", "/orders/42/pay").await;
        assert_eq!(refused.status(), 409);
        assert_eq!(refused.headers().contains_key("access-control-allow-origin"), has_it);
    }
}

/// A handler that hangs, under a time-out, and calls `begun` before.
fn hangs(begun: impl Fn() + Clone + Send + 'static) -> Handler {
    runs(move || {
        begun();
        pending()
    })
}

/// Inside, what the time-out answers comes after the release, as all answers do. Outside, it drops the layer's
/// future, which can wait for nothing: the release is on its way then, and another process may be quicker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_outs_of_handlers_belong_inside() {
    let server = RedisServer::start().await;
    let (far, proxy) = from_afar(&server).await;
    let near = connect(&server).await;
    let brief = TimeoutLayer::new(ms(30));
    let layer = order_layer(&far).release_timeout(PROMPTLY).build().unwrap();
    for round in 0..10 {
        let error = layer.layer(brief.layer(hangs(|| ()))).oneshot(pay()).await.unwrap_err();
        assert!(error.is::<Elapsed>(), "{error}");
        is_free(&near, ORDER, &format!("inside, round {round}")).await;
    }
    // Outside: not before the answer, but at once, and not only when the lease is over.
    let (proxy, next) = (Arc::new(proxy), near.mutex(ORDER));
    // Long enough to have the lock by then.
    let longer = TimeoutLayer::new(ms(500));
    for _ in 0..5 {
        // Nothing more reaches the server until the answer is there.
        let stalled = Arc::clone(&proxy);
        let outside = longer.layer(layer.layer(hangs(move || stalled.stall())));
        let error = outside.oneshot(pay()).await.unwrap_err();
        assert!(error.is::<Elapsed>(), "{error}");
        assert!(next.try_lock().await.unwrap().is_none(), "the documentation is wrong");
        proxy.delay_requests(Duration::ZERO);
        soon!(
            "it is given back",
            match next.try_lock().await.unwrap() {
                Some(guard) => guard.release().await.is_ok(),
                None => false,
            }
        );
    }
    // The next request of the same process follows the release on its connection.
    proxy.delay_requests(ms(5));
    let next = order_layer(&far).wait(Wait::None).build().unwrap();
    for round in 0..10 {
        assert!(brief.layer(layer.layer(hangs(|| ()))).oneshot(pay()).await.is_err());
        assert_eq!(status(&next, pay()).await, 200, "outside, round {round}");
    }
}
