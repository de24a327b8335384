//! Where other layers belong beside a lock layer: what the chapter "Where to put it" says, tried.

use axum::BoxError;
use axum::error_handling::HandleErrorLayer;
use axum::http::HeaderValue;
use axum::middleware::map_response;
use axum::response::Response;
use tower::ServiceBuilder;
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::load_shed::LoadShedLayer;
use tower::timeout::TimeoutLayer;

use crate::tower::prelude::*;

fn ask(app: &Router, method: &str, path: &str) -> impl Future<Output = Response> + use<> {
    let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    let answer = app.clone().oneshot(request);
    async { timeout(2 * PROMPTLY, answer).await.expect("a hang").unwrap() }
}

/// A limit of four requests, and 503 for others.
macro_rules! limit {
    () => {
        ServiceBuilder::new()
            .layer(HandleErrorLayer::new(async |_: BoxError| StatusCode::SERVICE_UNAVAILABLE))
            .layer(LoadShedLayer::new())
            .layer(GlobalConcurrencyLimitLayer::new(4))
    };
}

/// Outside, a request that waits for its lock has a permit, and others are refused for whom the lock is free.
#[tokio::test(start_paused = true)]
async fn limits_belong_inside() {
    for (outside, expected) in [(true, 503), (false, 200)] {
        let (locks, peer, _) = two_clients();
        let busy = peer.mutex("order:42").lock().await.unwrap();
        let layer = LockLayer::http().key("order:{path.id}").client(locks.clone()).build().unwrap();
        let app = Router::new().route("/orders/{id}/pay", post(async || "done"));
        let app = match outside {
            true => app.route_layer(layer).route_layer(limit!()),
            false => app.route_layer(limit!()).route_layer(layer),
        };
        let waiting: Vec<_> =
            (0..4).map(|_| lock_tests::spawn(ask(&app, "POST", "/orders/42/pay"))).collect();
        // On the paused clock, not before they wait.
        sleep(ms(100)).await;
        let other = ask(&app, "POST", "/orders/7/pay").await;
        assert_eq!(other.status(), expected, "outside: {outside}");
        busy.release().await.unwrap();
        for waiting in waiting {
            assert_eq!(waiting.await.unwrap().status(), StatusCode::OK);
        }
    }
}

#[tokio::test]
async fn what_adds_headers_belongs_outside() {
    async fn cors<B>(mut response: http::Response<B>) -> http::Response<B> {
        let any = HeaderValue::from_static("*");
        response.headers_mut().insert("access-control-allow-origin", any);
        response
    }
    let (locks, peer, _) = two_clients();
    let _busy = peer.mutex("order:42").lock().await.unwrap();
    let layer = || LockLayer::http().key("order:{path.id}").client(locks.clone()).wait(Wait::None);
    let app = || Router::new().route("/orders/{id}/pay", post(async || "done"));
    let cors = || map_response(cors::<Body>);
    let inside = app().layer(cors()).route_layer(layer().build().unwrap());
    let outside = app().route_layer(layer().build().unwrap()).layer(cors());
    for (app, has_it) in [(inside, false), (outside, true)] {
        let refused = ask(&app, "POST", "/orders/42/pay").await;
        assert_eq!(refused.status(), StatusCode::CONFLICT);
        assert_eq!(refused.headers().contains_key("access-control-allow-origin"), has_it);
    }
}

/// A handler that hangs, under a time-out, and calls `begun` before.
fn hangs(
    begun: impl Fn() + Clone + Send + 'static,
) -> impl tower::Service<
    Request<TestBody>,
    Response = http::Response<TestBody>,
    Error = Infallible,
    Future: Send,
> + Clone {
    service_fn(move |_| {
        begun();
        std::future::pending::<Result<http::Response<TestBody>, Infallible>>()
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
    let calls = Calls::default();
    for round in 0..10 {
        let counts = calls.clone();
        let inside = layer.layer(brief.layer(hangs(move || counts.add())));
        let error = inside.oneshot(pay()).await.unwrap_err();
        assert!(error.is::<tower::timeout::error::Elapsed>(), "{error}");
        let next = near.mutex("order:42").try_lock().await.unwrap();
        next.unwrap_or_else(|| panic!("busy in round {round}")).release().await.unwrap();
    }
    assert_eq!(calls.count(), 10);
    // Outside: not before the answer, but at once, and not only when the lease is over.
    let (proxy, next) = (Arc::new(proxy), near.mutex("order:42"));
    // Long enough to have the lock by then.
    let longer = TimeoutLayer::new(ms(500));
    for _ in 0..5 {
        // Nothing more reaches the server until the answer is there.
        let stalled = Arc::clone(&proxy);
        let outside = longer.layer(layer.layer(hangs(move || stalled.stall())));
        let error = outside.oneshot(pay()).await.unwrap_err();
        assert!(error.is::<tower::timeout::error::Elapsed>(), "{error}");
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
        let outside = brief.layer(layer.layer(hangs(|| ())));
        assert!(outside.oneshot(pay()).await.is_err());
        let answer = next.layer(Calls::default().service()).oneshot(pay()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "round {round}");
    }
}
