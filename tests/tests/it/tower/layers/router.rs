//! In an axum router: its own path parameters as keys, nesting, and a real connection.

use axum::routing::any;

use crate::tower::layers::connection::{self, Client, asks};
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
    let answer = seen(send(app, "POST", path).await).await;
    format!("{} {}", &answer[..3], answer.rsplit('\n').next().unwrap())
}

/// Parameters and route are what the router says, through all its nesting; a layer may name them otherwise.
#[tokio::test(start_paused = true)]
async fn the_router_says_what_the_parameters_are() {
    const NAMES: &[&str] = &[
        "POST:42",
        "POST:4%3A2",
        "POST:/v1/orders/%7Bid%7D",
        "inner:a:42",
        "outer:a:42",
        "service:a:42",
        "wild:a:42/pay",
        "own:7",
    ];
    let (locks, _, store) = two_clients();
    let state = (store, NAMES);
    let pay = || Router::new().route("/orders/{id}/pay", post(who));
    let own = LockLayer::http().key("own:{path.nr}").route("/own/{nr}").client(locks.clone());
    let app = Router::new()
        .merge(pay().route_layer(layer(&locks, "{method}:{path.id}")))
        .merge(Router::new().route("/own/{id}", post(who)).route_layer(own.build().unwrap()))
        .nest(
            "/v1",
            Router::new()
                .route("/orders/{id}", post(who))
                .route_layer(layer(&locks, "{method}:{route}")),
        )
        .merge(
            Router::new()
                .nest(
                    "/tenants/{tenant}",
                    pay().route_layer(layer(&locks, "inner:{path.tenant}:{path.id}")),
                )
                .route_layer(layer(&locks, "outer:{path.tenant}:{path.id}")),
        )
        .nest_service(
            "/other/{tenant}",
            pay()
                .route_layer(layer(&locks, "service:{path.tenant}:{path.id}"))
                .with_state(state.clone()),
        )
        .merge(
            Router::new()
                .route("/wild/{tenant}/{*rest}", any(who))
                .route_layer(layer(&locks, "wild:{path.tenant}:{path.rest}")),
        )
        .with_state(state);
    for (path, answer) in [
        ("/orders/42/pay", "200 POST:42"),
        ("/orders/4%3a2/pay?id=1", "200 POST:4%3A2"),
        ("/own/7", "200 own:7"),
        ("/v1/orders/42", "200 POST:/v1/orders/%7Bid%7D"),
        ("/tenants/a/orders/42/pay", "200 inner:a:42 outer:a:42"),
        ("/other/a/orders/42/pay", "200 service:a:42"),
        ("/wild/a/42/pay", "200 wild:a:42/pay"),
        // What matches no route stays what it is.
        ("/nowhere", "404 "),
        ("/tenants/a/nothing", "404 "),
    ] {
        assert_eq!(post_to(&app, path).await, answer, "{path}");
    }
    assert!(post_to(&app, "/orders/%FF/pay").await.starts_with("400 "), "not UTF-8");
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
            .with_state((store.clone(), &[ORDER]));
        assert!(post_to(&app, "/orders/42/pay").await.starts_with("200 "));
        for path in ["/nowhere", "/v1/nowhere", "/orders/42", "/wp-login.php"] {
            assert_eq!(post_to(&app, path).await, "404 ");
        }
        let app = app.fallback(async || "the fallback");
        assert_eq!(post_to(&app, "/nowhere").await, "200 the fallback");
    }
    assert_eq!(log.lines_with("ERROR"), [""; 0]);
}

/// A route without the parameter is answered with 500, and told of once; so is a layer around no router.
#[tokio::test(start_paused = true)]
async fn a_route_without_the_parameter_is_told_of_once() {
    let log = Log::start_at(tracing::Level::DEBUG);
    let layer = layer(&LockClient::in_memory(), "order:{path.id}");
    let done = || post(async || "done");
    let app = Router::new().route("/orders", done()).route("/bills/{nr}", done());
    let app = app.route_layer(layer.clone());
    // Which of its routes it is, a nested service knows alone.
    let pay = Router::new().route("/orders/{id}/pay", done());
    let around = Router::new().nest_service("/v1", pay).layer(layer.clone());
    for _ in 0..10 {
        for path in ["/orders", "/bills/1", "/bills/2"] {
            let misplaced = post_to(&app, path).await;
            assert!(misplaced.starts_with("500 ") && misplaced.contains("misconfigured"));
        }
        assert_eq!(status(&layer, request("POST", "/orders/42/pay")).await, 500);
        assert!(post_to(&around, "/v1/orders/42/pay").await.starts_with("500 "));
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

/// And the connection is good for the next request.
#[tokio::test]
async fn a_busy_answer_arrives_whole() {
    let (locks, peer, _) = two_clients();
    let other = peer.mutex(ORDER).lock().await.unwrap();
    let app = Router::new().route("/orders/{id}/pay", post(async || "done"));
    let layer = routed_layer(&locks).wait(Wait::None).build().unwrap();
    let mut client = Client::connect(connection::serve(app.route_layer(layer)).await, 1).await;
    let busy = client.send(asks("/orders/42/pay")).await;
    assert_eq!((busy.status().as_u16(), &busy.headers()["content-length"]), (409, &106.into()));
    assert_eq!(busy.into_body().collect().await.unwrap().to_bytes().len(), 106);
    other.release().await.unwrap();
    assert_eq!(client.send(asks("/orders/42/pay")).await.status(), 200);
}
