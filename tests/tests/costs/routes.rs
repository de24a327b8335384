//! What a request costs beside a thousand configured routes, in allocations.

use axum::routing::post;
use axum::{Router, body::Body};
use http::Request;
use lock_runtime::LockClient;
use lock_runtime::policy::LockConfig;
use lock_tower::{HttpLockLayer, LockLayer};
use tower::Service;

use super::{allocations, alone, live_bytes};

const ROUNDS: usize = 1_000;

/// A client with a thousand routes.
fn configured() -> LockClient {
    let mut text = "[lock.policies.order]\nkey = 'order:{path.id}'\n".to_owned();
    for n in 0..1_000 {
        text += &format!("[[lock.routes]]\npath = '/shop{n}/{{id}}/pay'\npolicy = 'order'\n");
    }
    let config = LockConfig::from_toml(&text).unwrap();
    LockClient::builder().config(config).in_memory().unwrap()
}

/// Allocations of so many requests, each in the scope of either client, warmed up.
async fn requests(layer: &HttpLockLayer, clients: &[LockClient; 2], path: &str) -> usize {
    let paid = || post(async || "paid");
    let mut app = Router::new()
        .route("/shop7/{id}/pay", paid())
        .route("/shop7/special/pay", paid())
        .route("/nowhere/{id}/pay", paid())
        .route_layer(layer.clone());
    allocations(ROUNDS, async || {
        for client in clients {
            let request = Request::post(path).body(Body::empty()).unwrap();
            assert_eq!(client.scope(app.call(request)).await.unwrap().status(), 200);
        }
    })
    .await
}

#[tokio::test(flavor = "current_thread")]
async fn a_configured_route_allocates_no_more_than_one_in_code() {
    let _alone = alone().await;
    let clients = [configured(), configured()];
    let routes = LockLayer::http().routes().build().unwrap();
    let code = LockLayer::http().key("order:{path.id}").route("/shop7/{id}/pay").build().unwrap();
    let code = requests(&code, &clients, "/shop7/42/pay").await;
    let locked = requests(&routes, &clients, "/shop7/42/pay").await;
    let passing = requests(&routes, &clients, "/nowhere/42/pay").await;
    // The router has it apart; it is a path of the configured route all the same.
    let other = requests(&routes, &clients, "/shop7/special/pay").await;
    assert!(passing + ROUNDS < code, "the count counts nothing: {passing}, {code}");
    // A table that grows now and then is nobody's request.
    let spare = ROUNDS / 100;
    assert!(locked <= code + spare, "configured {locked}, in code {code}, for {ROUNDS}");
    assert!(other <= code + spare, "another route {other}, in code {code}, for {ROUNDS}");
}

/// What a request leaves grows in every round; a table or a buffer grows by a step now and then.
#[tokio::test(flavor = "current_thread")]
async fn requests_leave_no_memory() {
    let _alone = alone().await;
    let clients = [configured(), configured()];
    let routes = LockLayer::http().routes().build().unwrap();
    let mut live = Vec::new();
    for _ in 0..6 {
        requests(&routes, &clients, "/shop7/42/pay").await;
        live.push(live_bytes());
    }
    let mut grown: Vec<_> = live.windows(2).map(|it| it[1].saturating_sub(it[0])).collect();
    grown.sort_unstable();
    assert!(grown[2] < ROUNDS, "{live:?}");
}
