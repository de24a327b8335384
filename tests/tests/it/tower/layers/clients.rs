//! One layer under several clients: each has what its own configuration says.

use crate::tower::layers::policies::{CHECKOUT, cart, clients, config};
use crate::tower::prelude::*;

/// A client with that configuration, and the lock of that name held by another process.
async fn busy(text: &str, name: &str) -> (LockClient, LockGuard) {
    let (client, peer) = clients(text);
    (client, peer.mutex(name).lock().await.unwrap())
}

/// What a request with a cart is answered in the scope of the client.
async fn post(layer: &HttpLockLayer, client: &LockClient) -> u16 {
    client.scope(status(layer, cart(http::Method::POST))).await
}

#[tokio::test(start_paused = true)]
async fn each_client_has_its_own_policy() {
    let basket = CHECKOUT.replace("423", "429").replace("cart:", "basket:");
    let (a, _cart) = busy(CHECKOUT, "cart:7").await;
    let (b, _basket) = busy(&basket, "basket:7").await;
    let layer = LockLayer::http().policy("checkout").build().unwrap();
    for _ in 0..10 {
        assert_eq!((post(&layer, &a).await, post(&layer, &b).await), (423, 429));
    }
    // A configuration that goes with no layer: the client keeps to its own old one.
    b.reload(config(&basket.replace("header.x-cart", "ext.cart"))).unwrap_err();
    for _ in 0..10 {
        assert_eq!((post(&layer, &a).await, post(&layer, &b).await), (423, 429));
    }
    // A client that never had a good one has nobody else's.
    let (c, _cart) = busy(&CHECKOUT.replace("header.x-cart", "ext.cart"), "cart:7").await;
    for _ in 0..3 {
        assert_eq!((post(&layer, &c).await, post(&layer, &a).await), (500, 423));
    }
    // Each follows its next one at once.
    b.reload(config(&basket.replace("429", "503"))).unwrap();
    c.reload(config(CHECKOUT)).unwrap();
    assert_eq!(post(&layer, &b).await, 503);
    assert_eq!((post(&layer, &a).await, post(&layer, &c).await), (423, 423));
}

#[tokio::test(start_paused = true)]
async fn each_client_has_its_own_routes() {
    let text = |path: &str| {
        format!(
            "[lock.policies.order]\nkey = 'order:{{path.id}}'\nwait = 'none'\n\
             [[lock.routes]]\npath = '{path}'\npolicy = 'order'"
        )
    };
    let (a, _order) = busy(&text("/orders/{id}"), "order:7").await;
    let (b, _bill) = busy(&text("/bills/{id}"), "order:7").await;
    let layer = LockLayer::http().routes().build().unwrap();
    let both = async |client: &LockClient| {
        let orders = client.scope(status(&layer, request("POST", "/orders/7"))).await;
        (orders, client.scope(status(&layer, request("POST", "/bills/7"))).await)
    };
    for _ in 0..10 {
        assert_eq!((both(&a).await, both(&b).await), ((409, 200), (200, 409)));
    }
    b.reload(config(&text("/bills/{id}").replace("path.id", "ext.id"))).unwrap_err();
    for _ in 0..10 {
        assert_eq!((both(&a).await, both(&b).await), ((409, 200), (200, 409)));
    }
}

/// A layer remembers what the 64 clients do that it has worked for last.
#[tokio::test(start_paused = true)]
async fn clients_come_and_go() {
    let layer = LockLayer::http().policy("checkout").build().unwrap();
    let mut all = Vec::new();
    for n in 0..200 {
        let text = CHECKOUT.replace("cart:", &format!("cart{n}:"));
        all.push(busy(&text, &format!("cart{n}:7")).await);
        assert_eq!(post(&layer, &all[n].0).await, 423);
        assert_eq!(post(&layer, &all[0].0).await, 423);
    }
    let bad = CHECKOUT.replace("header.x-cart", "ext.cart");
    for (n, (client, _)) in all.iter().enumerate() {
        client.reload(config(&bad)).unwrap_err();
        assert_eq!(post(&layer, client).await, 423, "{n}");
    }
}

/// A policy that goes with no layer stops nobody whom it is not to hold up.
#[tokio::test(start_paused = true)]
async fn what_is_not_enforced_needs_no_plan() {
    let bad = CHECKOUT.replace("header.x-cart", "ext.cart");
    let (strict, _cart) = busy(&bad, "cart:7").await;
    let (lax, _cart) = busy(&bad.replace("wait =", "enforce = false\nwait ="), "cart:7").await;
    let (layer, log) = (
        LockLayer::http().policy("checkout").build().unwrap(),
        Log::start_at(tracing::Level::DEBUG),
    );
    assert_eq!((post(&layer, &strict).await, post(&layer, &lax).await), (500, 200));
    let told = log.text();
    assert!(told.contains("does not enforce") && told.contains("ext.cart"), "{told}");
    // Where it can be told before there are requests, it is.
    assert!(LockLayer::http().client(lax).policy("checkout").build().is_err());
}
