//! One layer under several clients: each has what its own configuration says.

use crate::tower::layers::policies::{CHECKOUT, cart};
use crate::tower::prelude::*;

/// A client with that configuration, and the lock of that name held by another process.
async fn busy(text: &str, name: &str) -> (LockClient, LockGuard) {
    let (client, peer) = clients(text);
    (client, peer.mutex(name).lock().await.unwrap())
}

/// What a request with a cart is answered in the scope of the client.
async fn post(layer: &HttpLockLayer, client: &LockClient) -> u16 {
    client.scope(status(layer, cart("POST"))).await
}

/// No layer can follow it: it does not know the extension.
fn misfit(text: &str) -> String {
    text.replace("header.x-cart", "ext.cart").replace("path.id", "ext.id")
}

#[tokio::test(start_paused = true)]
async fn each_client_has_its_own_policy() {
    let basket = CHECKOUT.replace("423", "429").replace("cart:", "basket:");
    let (a, _cart) = busy(CHECKOUT, "cart:7").await;
    let (b, _basket) = busy(&basket, "basket:7").await;
    let layer = LockLayer::http().policy("checkout").build().unwrap();
    assert_eq!((post(&layer, &a).await, post(&layer, &b).await), (423, 429));
    // A configuration that goes with no layer: the client keeps to its own old one.
    b.reload(config(&misfit(&basket))).unwrap_err();
    for _ in 0..10 {
        assert_eq!((post(&layer, &a).await, post(&layer, &b).await), (423, 429));
    }
    // A client that never had a good one has no other client's.
    let (c, _cart) = busy(&misfit(CHECKOUT), "cart:7").await;
    assert_eq!((post(&layer, &c).await, post(&layer, &a).await), (500, 423));
    // Each follows its next one at once.
    b.reload(config(&basket.replace("429", "503"))).unwrap();
    c.reload(config(CHECKOUT)).unwrap();
    assert_eq!((post(&layer, &a).await, post(&layer, &c).await), (423, 423));
    assert_eq!(post(&layer, &b).await, 503);
}

#[tokio::test(start_paused = true)]
async fn each_client_has_its_own_routes() {
    let text = |path: &str| {
        let policy = "[lock.policies.order]\nkey = 'order:{path.id}'\nwait = 'none'\n";
        format!("{policy}[[lock.routes]]\npath = '{path}'\npolicy = 'order'")
    };
    let (a, _order) = busy(&text("/orders/{id}"), "order:7").await;
    let (b, _bill) = busy(&text("/bills/{id}"), "order:7").await;
    let layer = LockLayer::http().routes().build().unwrap();
    let both = async |client: &LockClient| {
        let orders = client.scope(status(&layer, request("POST", "/orders/7"))).await;
        (orders, client.scope(status(&layer, request("POST", "/bills/7"))).await)
    };
    assert_eq!((both(&a).await, both(&b).await), ((409, 200), (200, 409)));
    b.reload(config(&misfit(&text("/bills/{id}")))).unwrap_err();
    assert_eq!((both(&a).await, both(&b).await), ((409, 200), (200, 409)));
}

/// A policy that goes with no layer stops no call that it is not to hold up.
#[tokio::test(start_paused = true)]
async fn what_is_not_enforced_needs_no_plan() {
    let bad = misfit(CHECKOUT);
    let (strict, _cart) = busy(&bad, "cart:7").await;
    let (lax, _cart) = busy(&bad.replace("wait =", "enforce = false\nwait ="), "cart:7").await;
    let log = Log::start_at(tracing::Level::DEBUG);
    let layer = LockLayer::http().policy("checkout").build().unwrap();
    assert_eq!((post(&layer, &strict).await, post(&layer, &lax).await), (500, 200));
    assert!(log.lines_with("does not enforce")[0].contains("ext.cart"), "{}", log.text());
    // Where it can be told before there are requests, it is.
    assert!(LockLayer::http().client(lax).policy("checkout").build().is_err());
}
