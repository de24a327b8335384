//! Layers that follow a configuration: policies, routes, and their reload.

use lock_tower::http::RequestDeadline;

use crate::tower::prelude::*;

pub(crate) fn config(text: &str) -> lock_runtime::policy::LockConfig {
    LockConfig::from_toml(text).unwrap()
}

/// A client with that configuration, and another process.
pub(crate) fn clients(text: &str) -> (LockClient, LockClient) {
    let store = MemoryStore::new();
    let locks = LockClient::builder().config(config(text)).store(store.clone()).unwrap();
    (locks, LockClient::builder().store(store.peer()).unwrap())
}

pub(crate) const CHECKOUT: &str = r#"
    [lock.policies.checkout]
    key = "cart:{header.x-cart}"
    wait = "none"
    http = { busy = 423, on_missing = "skip", methods = ["POST", "GET"] }
"#;

pub(crate) fn cart(method: Method) -> Request<TestBody> {
    let request = Request::builder().method(method).uri("/").header("x-cart", "7");
    request.body(TestBody::default()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_policy_says_it_all() {
    let (locks, peer) = clients(CHECKOUT);
    let layer = LockLayer::http().client(locks).policy("checkout").build().unwrap();
    let _other = peer.mutex("cart:7").lock().await.unwrap();
    for (method, expected) in [(Method::POST, 423), (Method::GET, 423), (Method::PUT, 200)] {
        assert_eq!(status(&layer, cart(method.clone())).await, expected, "{method}");
    }
    assert_eq!(status(&layer, pay()).await, 200, "no cart, no lock");
}

#[tokio::test(start_paused = true)]
async fn literals_come_first() {
    let (locks, peer) = clients(CHECKOUT);
    let layer = LockLayer::http()
        .client(locks)
        .policy("checkout")
        .key("order:{header.x-cart}")
        .methods([Method::POST])
        .busy(StatusCode::CONFLICT)
        .options(LockOptions::new().wait(Wait::UpTo(secs(1))))
        .build()
        .unwrap();
    let (_other, start) = (peer.mutex("order:7").lock().await.unwrap(), Instant::now());
    assert_eq!(status(&layer, cart(Method::POST)).await, 503);
    assert_eq!(start.elapsed().as_secs(), 1);
    assert_eq!(status(&layer, cart(Method::GET)).await, 200);
}

#[tokio::test(start_paused = true)]
async fn a_reload_has_effect_at_once() {
    let (locks, peer) = clients(CHECKOUT);
    let layer = LockLayer::http().client(locks.clone()).policy("checkout").build().unwrap();
    let _other = peer.mutex("cart:7").lock().await.unwrap();
    assert_eq!(status(&layer, cart(Method::POST)).await, 423);
    locks.reload(config(&CHECKOUT.replace("423", "429"))).unwrap();
    assert_eq!(status(&layer, cart(Method::POST)).await, 429);
    locks.reload(config(&CHECKOUT.replace("cart:", "basket:"))).unwrap();
    assert_eq!(status(&layer, cart(Method::POST)).await, 200);
    // What the layer cannot follow is refused as a whole, and what was before stays.
    for (bad, problem) in unfit() {
        let error = locks.reload(config(&bad)).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
        let _basket = peer.mutex("basket:7").lock().await.unwrap();
        for _ in 0..3 {
            assert_eq!(status(&layer, cart(Method::POST)).await, 423);
        }
    }
    // A layer that is gone follows nothing.
    drop(layer);
    locks.reload(config(&unfit()[0].0)).unwrap();
}

/// Configurations that a layer with the policy "checkout" cannot follow, and why.
fn unfit() -> [(String, &'static str); 4] {
    [
        (
            CHECKOUT.replace("header.x-cart", "ext.cart"),
            "an extension whose type the layer does not",
        ),
        ("[lock.policies.checkout]".to_owned(), "the layer has no key"),
        ("[lock.policies.chekout]".to_owned(), "did you mean \"chekout\"?"),
        (CHECKOUT.replace("423", "404"), "lock.policies.checkout.http.busy: "),
    ]
}

#[test]
fn what_a_policy_cannot_be_is_found_when_the_layer_is_built() {
    for (text, reason) in unfit() {
        let layer = LockLayer::http().client(clients(&text).0).policy("checkout").build();
        let message = layer.unwrap_err().to_string();
        assert!(message.contains(reason), "{message}");
    }
}

/// Shadow mode: it runs, whatever the lock would have said, and the log has what that was.
#[tokio::test(start_paused = true)]
async fn what_is_not_enforced_delays_no_call() {
    let text = CHECKOUT.replace("wait = \"none\"", "wait = \"forever\"\nenforce = false");
    let (locks, peer) = clients(&text);
    let layer = LockLayer::http().client(locks).policy("checkout").build().unwrap();
    let (log, start) = (Log::start_at(tracing::Level::DEBUG), Instant::now());
    let free = status(&layer, cart(Method::POST)).await;
    assert!(free == 200 && !log.text().contains("does not enforce"), "{}", log.text());
    let _other = peer.mutex("cart:7").lock().await.unwrap();
    assert_eq!(status(&layer, cart(Method::POST)).await, 200);
    assert!(start.elapsed() < ms(100));
    let told = log.text();
    assert!(told.contains("does not enforce") && told.contains("another holder has it"), "{told}");
    // A store that fails or hangs, and a key that is missing, are no hindrance either.
    let text = text.replace("\"skip\"", "\"reject\"");
    // A client each: what a policy does not enforce is logged once a second.
    for request in [cart(Method::POST), pay()] {
        let refusing = Troubled::refusing(StoreErrorKind::Unavailable);
        let failing = LockClient::builder().config(config(&text)).store(refusing).unwrap();
        let layer = LockLayer::http().client(failing).policy("checkout").build().unwrap();
        assert_eq!(status(&layer, request).await, 200);
    }
    assert!(log.text().contains("the request has no header `x-cart`"));
    // Nor is a request whose own time is over.
    let mut late = cart(Method::POST);
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
    let _pay = peer.mutex("order:42").lock().await.unwrap();
    let _order = peer.mutex("/orders/%7Bid%7D:42").lock().await.unwrap();
    let _mine = peer.mutex("mine").lock().await.unwrap();
    let table = [
        ("POST", "/orders/42/pay", 409),
        ("POST", "/orders/43/pay", 200),
        ("PUT", "/orders/42/pay", 200),
        ("PUT", "/orders/42", 409),
        ("GET", "/orders/42", 200),
        ("DELETE", "/orders/mine", 409),
        ("PUT", "/orders/mine", 200),
        ("POST", "/elsewhere", 200),
    ];
    for (method, path, expected) in table {
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
        (keyless, "invalid lock options: lock.routes[0] (/{id}): the layer has no key"),
        (
            &*unknown,
            "invalid lock options: lock.routes[0] (/{id}): `{ext.user}` is an extension whose type",
        ),
    ] {
        let message = LockLayer::routes(&clients(text).0).unwrap_err().to_string();
        assert!(message.starts_with(reason), "{message}");
        let (locks, _) = clients("[lock]");
        let _layer = LockLayer::routes(&locks).unwrap();
        let error = locks.reload(config(text)).unwrap_err().to_string();
        assert_eq!(message, format!("invalid lock options: {error}"));
    }
    // The key of the code is checked with each route.
    let layer = |key: &str| LockLayer::http().client(clients(keyless).0).key(key).routes().build();
    assert!(layer("order:{path.id}").is_ok());
    let message = layer("order:{path.nr}").unwrap_err().to_string();
    assert!(message.contains("`{path.nr}` is not in the route `/{id}`"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn without_a_client_only_what_locks_fails() {
    let layer = LockLayer::http().policy("checkout").hold(HoldUntil::Auto).build().unwrap();
    assert_eq!(status(&layer, cart(Method::GET)).await, 200);
    assert_eq!(status(&layer, cart(Method::POST)).await, 500);
    let (locks, peer) = clients(CHECKOUT);
    let _other = peer.mutex("cart:7").lock().await.unwrap();
    let scoped = locks.scope(async { status(&layer, cart(Method::POST)).await }).await;
    assert_eq!(scoped, StatusCode::LOCKED.as_u16());
    let app: Router = Router::new().route("/", post(async || "done"));
    drop(app.layer(layer));
}

/// New defaults that contradict the settings of a layer without a policy: every request would be a 500.
#[test]
fn defaults_that_contradict_the_code_are_refused_before_a_reload() {
    let (locks, _) = clients("[lock.defaults]\nwait = '1s'");
    let fixed = LockOptions::new().lease(Lease::Fixed(secs(10)));
    let layer = LockLayer::http().key("a").client(locks.clone());
    let set = layer.options(fixed).build().unwrap();
    let defaults = config("[lock.defaults]\nat_least = '1m'");
    let error = locks.reload(defaults).unwrap_err().to_string();
    assert!(error.contains("at_least"), "{error}");
    locks.reload(config("[lock.defaults]\nwait = '2s'")).unwrap();
    drop(set);
}

const METHODS: [&str; 9] =
    ["GET", "HEAD", "OPTIONS", "TRACE", "POST", "PUT", "PATCH", "PROPFIND", "CONNECT"];

#[tokio::test(start_paused = true)]
async fn methods_are_listed_or_excluded() {
    for (methods, locked) in [
        ("", ["POST", "PUT", "PATCH", "PROPFIND", "CONNECT"].as_slice()),
        ("methods = 'all'", &METHODS),
        (
            "methods = 'all but GET, OPTIONS, POST'",
            &["TRACE", "PUT", "PATCH", "PROPFIND", "CONNECT"],
        ),
        ("methods = ['GET', 'PROPFIND']", &["GET", "HEAD", "PROPFIND"]),
    ] {
        let text = format!("[lock.policies.p]\nkey = 'k'\nwait = 'none'\nhttp = {{ {methods} }}");
        let (locks, peer) = clients(&text);
        let _other = peer.mutex("k").lock().await.unwrap();
        let by_policy = LockLayer::http().client(locks.clone()).policy("p").build().unwrap();
        let code = || LockLayer::http().client(locks.clone()).key("k").wait(Wait::None);
        let by_code = match methods {
            "" => code(),
            "methods = 'all'" => code().all_methods(),
            "methods = ['GET', 'PROPFIND']" => {
                code().methods([Method::GET, Method::from_bytes(b"PROPFIND").unwrap()])
            }
            _ => code().all_methods_but([Method::GET, Method::OPTIONS, Method::POST]),
        };
        for layer in [by_policy, by_code.build().unwrap()] {
            for method in METHODS {
                let expected = if locked.contains(&method) { 409 } else { 200 };
                let answered = status(&layer, request(method, "/")).await;
                assert_eq!(answered, expected, "{method} with {methods:?}");
            }
        }
    }
}
