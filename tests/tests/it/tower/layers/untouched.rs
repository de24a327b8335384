//! Requests that only read: nothing is asked of the store on their account.

use crate::tower::prelude::*;

#[tokio::test]
async fn what_only_reads_costs_no_command() {
    let (server, locks, peer) = world_of_two().await;
    let _other = peer.mutex(ORDER).lock().await.unwrap();
    let by_default = order_layer(&locks).build().unwrap();
    let shared = order_layer(&locks).share_safe_methods(true).key("reader:{path.id}");
    let shared = shared.build().unwrap();
    // Also where it would have to wait for ever. Those that lock are seen.
    for (layer, method, path, asks) in [
        (&by_default, "GET", "/orders/42/pay", false),
        (&by_default, "HEAD", "/orders/42/pay", false),
        (&by_default, "OPTIONS", "/orders/42/pay", false),
        (&by_default, "TRACE", "/orders/42/pay", false),
        (&shared, "OPTIONS", "/orders/42/pay", false),
        (&by_default, "POST", "/orders/7/pay", true),
        (&shared, "GET", "/orders/7/pay", true),
    ] {
        server.reset_stats().await;
        assert_eq!(status(layer, request(method, path)).await, 200, "{method}");
        let mut commands = server.command_calls().await;
        // The side channel's own.
        commands.retain(|name, _| name != "info" && name != "config|resetstat");
        assert_eq!(!commands.is_empty(), asks, "{method}: {commands:?}");
    }
}
