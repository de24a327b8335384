//! Requests that only read: nothing is asked of the store on their account.

use crate::tower::prelude::*;

#[tokio::test]
async fn what_only_reads_costs_no_command() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    let peer = connect(&server).await;
    let _other = peer.mutex("order:42").lock().await.unwrap();
    let calls = Calls::default();
    let by_default = order_layer(&locks).build().unwrap();
    let shared = order_layer(&locks).share_safe_methods(true);
    let shared = shared.key("reader:{path.id}").build().unwrap();
    let run = async |layer: &HttpLockLayer, method: &Method, uri: &str| {
        let request = Request::builder().method(method).uri(uri);
        let request = request.body(TestBody::default()).unwrap();
        server.reset_stats().await;
        let answer = timeout(PROMPTLY, layer.layer(calls.service()).oneshot(request)).await;
        let answer = answer.expect("it waits").unwrap();
        assert_eq!(answer.status(), 200, "{method}");
        let mut commands = server.command_calls().await;
        // The side channel's own.
        commands.retain(|name, _| name != "info" && name != "config|resetstat");
        commands
    };
    let reading = [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE];
    for method in &reading {
        // Also where it would have to wait for ever.
        let commands = run(&by_default, method, "/orders/42/pay").await;
        assert!(commands.is_empty(), "{method}: {commands:?}");
    }
    let commands = run(&shared, &Method::OPTIONS, "/orders/42/pay").await;
    assert!(commands.is_empty(), "{commands:?}");
    assert_eq!(calls.count(), reading.len() + 1);
    // And those that lock are seen.
    assert!(!run(&by_default, &Method::POST, "/orders/7/pay").await.is_empty());
    assert!(!run(&shared, &Method::GET, "/orders/7/pay").await.is_empty());
}
