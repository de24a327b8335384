//! Layers that follow a configuration: policies, routes, and their reload.

use lock_tower::http::RequestDeadline;

use crate::tower::prelude::*;

pub(crate) const CHECKOUT: &str = r#"
    [lock.policies.checkout]
    key = "cart:{header.x-cart}"
    wait = "none"
    http = { busy = 423, on_missing = "skip", methods = ["POST", "GET"] }
"#;

pub(crate) fn cart(method: &str) -> Request<TestBody> {
    let mut request: Request<TestBody> = request(method, "/");
    request.headers_mut().insert("x-cart", 7.into());
    request
}

/// The policy says it all, unless the code does; a reload has effect at once.
#[tokio::test(start_paused = true)]
async fn a_layer_follows_its_policy() {
    let (locks, peer) = clients(CHECKOUT);
    let checkout = || LockLayer::http().client(locks.clone()).policy("checkout");
    let layer = checkout().build().unwrap();
    let _other = peer.mutex("cart:7").lock().await.unwrap();
    for (method, expected) in [("POST", 423), ("GET", 423), ("PUT", 200)] {
        assert_eq!(status(&layer, cart(method)).await, expected, "{method}");
    }
    assert_eq!(status(&layer, pay()).await, 200, "no cart, no lock");

    let literals = checkout().key("order:{header.x-cart}").methods([Method::POST]);
    let literals = literals.busy(StatusCode::CONFLICT).wait(secs(1)).build().unwrap();
    let (_other, start) = (peer.mutex("order:7").lock().await.unwrap(), Instant::now());
    assert_eq!(status(&literals, cart("POST")).await, 503);
    assert_eq!(start.elapsed().as_secs(), 1);
    assert_eq!(status(&literals, cart("GET")).await, 200);
    drop(literals);

    locks.reload(config(&CHECKOUT.replace("423", "429"))).unwrap();
    assert_eq!(status(&layer, cart("POST")).await, 429);
    let basket = CHECKOUT.replace("cart:", "basket:");
    locks.reload(config(&basket.replace("wait", "kind = \"read\"\n    wait"))).unwrap();
    let reader = peer.rw_lock("basket:7").read().await.unwrap();
    assert_eq!(status(&layer, cart("POST")).await, 200);
    reader.release().await.unwrap();
    locks.reload(config(&basket)).unwrap();
    assert_eq!(status(&layer, cart("POST")).await, 200);
    // What the layer cannot follow is refused as a whole, when it is built and later, and what was before stays.
    let misfit = CHECKOUT.replace("header.x-cart", "ext.cart");
    for (bad, problem) in [
        (&*misfit, "an extension whose type the layer does not"),
        ("[lock.policies.checkout]", "the layer has no key"),
        ("[lock.policies.chekout]", "did you mean \"chekout\"?"),
        (&CHECKOUT.replace("423", "404"), "lock.policies.checkout.http.busy: "),
    ] {
        let error = locks.reload(config(bad)).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
        let built = LockLayer::http().client(clients(bad).0).policy("checkout").build();
        let error = built.unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
        let _basket = peer.mutex("basket:7").lock().await.unwrap();
        assert_eq!(status(&layer, cart("POST")).await, 423);
    }
    // A layer that is gone follows nothing.
    drop(layer);
    locks.reload(config(&misfit)).unwrap();
}

/// Shadow mode: it runs, whatever the lock would have said, and the log has what that was.
#[tokio::test(start_paused = true)]
async fn what_is_not_enforced_delays_no_call() {
    let text = CHECKOUT.replace("wait = \"none\"", "wait = \"forever\"\nenforce = false");
    let text = text.replace("\"skip\"", "\"reject\"");
    let (locks, peer) = clients(&text);
    let layer = LockLayer::http().client(locks).policy("checkout").build().unwrap();
    let (log, start) = (Log::start_at(tracing::Level::DEBUG), Instant::now());
    assert_eq!(status(&layer, cart("POST")).await, 200);
    assert_eq!(log.lines_with("does not enforce"), [""; 0], "it was free");
    let _other = peer.mutex("cart:7").lock().await.unwrap();
    assert_eq!(status(&layer, cart("POST")).await, 200);
    assert!(start.elapsed() < ms(100));
    let lines = log.lines_with("does not enforce");
    assert!(lines[0].contains("another holder has it"), "{lines:?}");
    // Nor does a store that fails, or a key that is missing. Each has a client: a line is logged once a second.
    for request in [cart("POST"), pay()] {
        let refusing = Troubled::refusing(StoreErrorKind::Unavailable);
        let failing = LockClient::builder().config(config(&text)).store(refusing).unwrap();
        let layer = LockLayer::http().client(failing).policy("checkout").build().unwrap();
        assert_eq!(status(&layer, request).await, 200);
    }
    assert!(log.text().contains("the request has no header `x-cart`"));
    // Nor a request whose own time is over.
    let mut late = cart("POST");
    late.extensions_mut().insert(RequestDeadline(Instant::now()));
    assert_eq!(status(&layer, late).await, 200);
}

const ROUTES: &str = r#"
    [lock.policies.order]
    key = "order:{path.id}"
    wait = "none"

    [[lock.routes]]
    methods = ["POST"]
    path = "/orders/{id}/pay"
    policy = "order"

    [[lock.routes]]
    path = "/orders/{id}"
    policy = "order"
    key = "{route}:{path.id}"
    hold = "body"

    [[lock.routes]]
    methods = ["DELETE"]
    path = "/orders/mine"
    policy = "order"
    key = "mine"
"#;

#[tokio::test(start_paused = true)]
async fn routes_lock_what_fits_them() {
    let (locks, peer) = clients(ROUTES);
    let layer = LockLayer::routes(&locks).unwrap();
    let _pay = peer.mutex(ORDER).lock().await.unwrap();
    let _order = peer.mutex("/orders/%7Bid%7D:42").lock().await.unwrap();
    let _mine = peer.mutex("mine").lock().await.unwrap();
    for (method, path, expected) in [
        ("POST", "/orders/42/pay", 409),
        ("POST", "/orders/43/pay", 200),
        ("PUT", "/orders/42/pay", 200),
        ("PUT", "/orders/42", 409),
        ("GET", "/orders/42", 200),
        ("DELETE", "/orders/mine", 409),
        ("PUT", "/orders/mine", 200),
        ("POST", "/elsewhere", 200),
    ] {
        assert_eq!(status(&layer, request(method, path)).await, expected, "{method} {path}");
    }
    // Another key for the same policy, after a reload.
    locks.reload(config(&ROUTES.replace("\"order:{path", "\"bill:{path"))).unwrap();
    assert_eq!(status(&layer, request("POST", "/orders/42/pay")).await, 200);
    locks.reload(config("[lock]")).unwrap();
    assert_eq!(status(&layer, request("DELETE", "/orders/mine")).await, 200, "no routes, no locks");
}

/// What only the layer knows of a route, because its code may have a key and extensions.
#[tokio::test(start_paused = true)]
async fn a_route_that_does_not_fit_the_layer_is_found_when_the_layer_is_built() {
    let keyless = "[lock.policies.p]\n[[lock.routes]]\npath = '/{id}'\npolicy = 'p'";
    let unknown = keyless.replace("path =", "key = '{ext.user}'\npath =");
    for (text, reason) in [
        (keyless, "lock.routes[0] (/{id}): the layer has no key"),
        (&*unknown, "lock.routes[0] (/{id}): `{ext.user}` is an extension whose type"),
    ] {
        let message = LockLayer::routes(&clients(text).0).unwrap_err().to_string();
        let (locks, _) = clients("[lock]");
        let _layer = LockLayer::routes(&locks).unwrap();
        let error = locks.reload(config(text)).unwrap_err().to_string();
        assert!(error.starts_with(reason), "{error}");
        assert_eq!(message, format!("invalid lock options: {error}"));
    }
    // The key of the code is checked with each route.
    let layer = |key: &str| LockLayer::http().client(clients(keyless).0).key(key).routes().build();
    assert!(layer("order:{path.id}").is_ok());
    let message = layer("order:{path.nr}").unwrap_err().to_string();
    assert!(message.contains("`{path.nr}` is not in the route `/{id}`"), "{message}");
}

/// No method passes that the code locks; others do.
#[tokio::test(start_paused = true)]
async fn without_a_client_only_what_locks_fails() {
    let builder = || LockLayer::http().policy("checkout");
    let layer = builder().hold(HoldUntil::Auto).build().unwrap();
    let named = builder().methods([Method::GET]).build().unwrap();
    let shared = builder().share_safe_methods(true).build().unwrap();
    for (layer, method, expected) in [
        (&layer, "GET", 200),
        (&layer, "POST", 500),
        (&named, "GET", 500),
        (&named, "OPTIONS", 200),
        (&shared, "GET", 500),
        (&shared, "OPTIONS", 200),
    ] {
        assert_eq!(status(layer, cart(method)).await, expected, "{method}");
    }
    let (locks, peer) = clients(CHECKOUT);
    let _other = peer.mutex("cart:7").lock().await.unwrap();
    assert_eq!(locks.scope(async { status(&layer, cart("POST")).await }).await, 423);
}

const METHODS: [&str; 9] =
    ["GET", "HEAD", "OPTIONS", "TRACE", "POST", "PUT", "PATCH", "PROPFIND", "CONNECT"];

#[tokio::test(start_paused = true)]
async fn methods_are_listed_or_excluded() {
    type Adapt = fn(HttpLockLayerBuilder) -> HttpLockLayerBuilder;
    let listed: Adapt = |it| it.methods([Method::GET, Method::from_bytes(b"PROPFIND").unwrap()]);
    let excluded: Adapt = |it| it.all_methods_but([Method::GET, Method::OPTIONS, Method::POST]);
    let rows: [(&str, Adapt, &[&str]); 4] = [
        ("", |it| it, &["POST", "PUT", "PATCH", "PROPFIND", "CONNECT"]),
        ("methods = 'all'", |it| it.all_methods(), &METHODS),
        (
            "methods = 'all but GET, OPTIONS, POST'",
            excluded,
            &["TRACE", "PUT", "PATCH", "PROPFIND", "CONNECT"],
        ),
        // A router has GET's handler answer HEAD, so both are about the same thing.
        ("methods = ['GET', 'PROPFIND']", listed, &["GET", "HEAD", "PROPFIND"]),
    ];
    for (methods, by_code, locked) in rows {
        let text = format!("[lock.policies.p]\nkey = 'k'\nwait = 'none'\nhttp = {{ {methods} }}");
        let (locks, peer) = clients(&text);
        let _other = peer.mutex("k").lock().await.unwrap();
        let layer = || LockLayer::http().client(locks.clone());
        for layer in [layer().policy("p"), by_code(layer().key("k").wait(Wait::None))] {
            let layer = layer.build().unwrap();
            for method in METHODS {
                let expected = if locked.contains(&method) { 409 } else { 200 };
                let answered = status(&layer, request(method, "/")).await;
                assert_eq!(answered, expected, "{method} with {methods:?}");
            }
        }
    }
    let (locks, ..) = two_clients();
    let _get = locks.mutex("GET:order").lock().await.unwrap();
    let builder = || LockLayer::http().client(locks.clone()).key("{method}:order").wait(Wait::None);
    let both = builder().methods([Method::GET]).build().unwrap();
    let each = builder().methods([Method::HEAD]).build().unwrap();
    assert_eq!(status(&both, request("HEAD", "/")).await, 409);
    assert_eq!(status(&each, request("HEAD", "/")).await, 200);
}
