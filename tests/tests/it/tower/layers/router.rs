//! In an axum router: its own path parameters as keys, nesting, and a real connection.

use axum::routing::any;

use crate::tower::prelude::*;

fn layer(locks: &LockClient, key: &str) -> HttpLockLayer {
    LockLayer::http().key(key).client(locks.clone()).build().unwrap()
}

/// Says which locks are held while it runs: names in the order of the list.
async fn who(State((store, names)): State<(MemoryStore, &'static [&'static str])>) -> String {
    let held = names.iter().filter(|name| held(&store, name) == 1);
    held.copied().collect::<Vec<_>>().join(" ")
}

async fn post_to(app: &Router, path: &str) -> String {
    let request = Request::post(path).body(Body::empty()).unwrap();
    let answer = seen(app.clone().oneshot(request).await.unwrap()).await;
    let (status, body) = (&answer[..3], answer.rsplit('\n').next().unwrap());
    format!("{status} {body}")
}

#[tokio::test(start_paused = true)]
async fn the_router_says_what_the_parameters_are() {
    let (locks, _, store) = two_clients();
    let app = Router::new()
        .route("/orders/{id}/pay", post(who))
        .route("/files/{*path}", post(who))
        .route_layer(layer(&locks, "{method}:{path.id}"))
        .with_state((store, &["POST:42", "POST:4%3A2"]));
    assert_eq!(post_to(&app, "/orders/42/pay").await, "200 POST:42");
    assert_eq!(post_to(&app, "/orders/4%3a2/pay?id=1").await, "200 POST:4%3A2");
    assert!(post_to(&app, "/orders/%FF/pay").await.starts_with("400 "), "not UTF-8");
    // What matches no route stays what it is.
    assert_eq!(post_to(&app, "/nowhere").await, "404 ");
}

#[tokio::test(start_paused = true)]
async fn the_router_says_which_route_it_is() {
    let (locks, _, store) = two_clients();
    let names: &[&str] = &["POST:/v1/orders/%7Bid%7D"];
    let inner = Router::new().route("/orders/{id}", post(who));
    let app = Router::new()
        .nest("/v1", inner)
        .route_layer(layer(&locks, "{method}:{route}"))
        .with_state((store, names));
    assert_eq!(post_to(&app, "/v1/orders/42").await, "200 POST:/v1/orders/%7Bid%7D");
}

#[tokio::test(start_paused = true)]
async fn nested_routers_keep_all_their_parameters() {
    let (locks, _, store) = two_clients();
    let names: &[&str] = &["inner:a:42", "outer:a:42", "service:a:42", "wild:a:42/pay"];
    let pay = || Router::new().route("/orders/{id}/pay", post(who));
    let inner = layer(&locks, "inner:{path.tenant}:{path.id}");
    let service = layer(&locks, "service:{path.tenant}:{path.id}");
    let wild = layer(&locks, "wild:{path.tenant}:{path.rest}");
    let app = Router::new()
        .nest("/tenants/{tenant}", pay().route_layer(inner))
        .route_layer(layer(&locks, "outer:{path.tenant}:{path.id}"))
        .nest_service(
            "/other/{tenant}",
            pay().route_layer(service).with_state((store.clone(), names)),
        )
        .merge(Router::new().route("/wild/{tenant}/{*rest}", any(who)).route_layer(wild))
        .with_state((store, names));
    assert_eq!(post_to(&app, "/tenants/a/orders/42/pay").await, "200 inner:a:42 outer:a:42");
    assert_eq!(post_to(&app, "/other/a/orders/42/pay").await, "200 service:a:42");
    assert_eq!(post_to(&app, "/wild/a/42/pay").await, "200 wild:a:42/pay");
    assert_eq!(post_to(&app, "/tenants/a/nothing").await, "404 ");
}

/// A request that no route matched is passed on, whatever its key needs.
#[tokio::test(start_paused = true)]
async fn what_no_route_matches_is_passed_on() {
    let (locks, _, store) = two_clients();
    let log = Log::start_at(tracing::Level::DEBUG);
    for key in ["order:{path.id}", "all:{route}"] {
        let app = Router::new()
            .route("/orders/{id}/pay", post(who))
            .nest("/v1", Router::new().route("/orders/{id}/pay", post(who)))
            .layer(layer(&locks, key))
            .with_state((store.clone(), &["order:42"]));
        let paid = post_to(&app, "/orders/42/pay").await;
        assert!(paid.starts_with("200 "), "{paid}");
        for path in ["/nowhere", "/v1/nowhere", "/orders/42", "/wp-login.php"] {
            assert_eq!(post_to(&app, path).await, "404 ");
        }
        let app = app.fallback(async || "the fallback");
        assert_eq!(post_to(&app, "/nowhere").await, "200 the fallback");
    }
    assert_eq!(log.lines_with("ERROR"), Vec::<String>::new());
}

/// A route without the parameter is answered with 500, and told of once; so is a layer around no router.
#[tokio::test(start_paused = true)]
async fn a_route_without_the_parameter_is_told_of_once() {
    let (locks, _, store) = two_clients();
    let log = Log::start_at(tracing::Level::DEBUG);
    let layer = layer(&locks, "order:{path.id}");
    let app = Router::new()
        .route("/orders", post(who))
        .route("/bills/{nr}", post(who))
        .route_layer(layer.clone())
        .with_state((store, &[]));
    // Which of its routes it is, a nested service knows alone.
    let pay = Router::new().route("/orders/{id}/pay", post(async || "paid"));
    let around = Router::new().nest_service("/v1", pay).layer(layer.clone());
    for _ in 0..10 {
        for path in ["/orders", "/bills/1", "/bills/2"] {
            let misplaced = post_to(&app, path).await;
            assert!(
                misplaced.starts_with("500 ") && misplaced.contains("misconfigured"),
                "{misplaced}"
            );
        }
        let done = service_fn(|_: Request<Body>| async {
            Ok::<_, Infallible>(Response::new(Body::empty()))
        });
        let request = Request::post("/orders/42/pay").body(Body::empty()).unwrap();
        assert_eq!(layer.layer(done).oneshot(request).await.unwrap().status(), 500);
        let unlocked = post_to(&around, "/v1/orders/42/pay").await;
        assert!(unlocked.starts_with("500 "), "{unlocked}");
    }
    let told = log.lines_with("ERROR");
    assert_eq!(told.len(), 3, "{}", log.text());
    for (line, part) in told.iter().zip([
        "the route /orders has no parameter `id`",
        "the route /bills/{nr} has no parameter `id`",
        "no router has matched the path yet",
    ]) {
        assert!(line.contains(part), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_route_that_is_told_comes_before_the_routers() {
    let (locks, _, store) = two_clients();
    let told = LockLayer::http().key("order:{path.order}").route("/orders/{order}/pay");
    let app = Router::new()
        .route("/orders/{id}/pay", post(who))
        .route_layer(told.client(locks).build().unwrap())
        .with_state((store, &["order:42"]));
    assert_eq!(post_to(&app, "/orders/42/pay").await, "200 order:42");
}

/// A server on a free port, whose handler takes as long as it is given, and a connection to it.
async fn connection(locks: &LockClient, handler: Duration) -> (std::net::SocketAddr, TcpStream) {
    let terms = options(Wait::None);
    let layer =
        LockLayer::http().key("order:{path.id}").client(locks.clone()).options(terms).build();
    let handler = move || async move {
        sleep(handler).await;
        "done"
    };
    let app = Router::new().route("/orders/{id}/pay", post(handler)).route_layer(layer.unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    lock_tests::spawn(axum::serve(listener, app).into_future());
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = b"POST /orders/42/pay HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n";
    stream.write_all(request).await.unwrap();
    (address, stream)
}

#[tokio::test]
async fn a_busy_answer_arrives_whole() {
    let (locks, peer, _) = two_clients();
    let other = peer.mutex("order:42").lock().await.unwrap();
    let (_, mut stream) = connection(&locks, Duration::ZERO).await;
    let mut answer = String::new();
    while !answer.ends_with('}') {
        let mut chunk = [0; 1024];
        let read = tokio::time::timeout(PROMPTLY, stream.read(&mut chunk)).await.unwrap().unwrap();
        assert!(read > 0, "{answer}");
        answer.push_str(std::str::from_utf8(&chunk[..read]).unwrap());
    }
    assert!(answer.starts_with("HTTP/1.1 409 Conflict\r\n"), "{answer}");
    assert!(answer.contains("content-length: 106\r\n"), "{answer}");
    // The connection is good for the next request.
    other.release().await.unwrap();
    let request = b"POST /orders/42/pay HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut chunk = [0; 1024];
    let read = tokio::time::timeout(PROMPTLY, stream.read(&mut chunk)).await.unwrap().unwrap();
    let answer = std::str::from_utf8(&chunk[..read]).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}
