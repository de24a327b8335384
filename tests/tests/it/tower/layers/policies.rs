//! Layers that follow a configuration: policies, routes, and their reload.

use axum::routing::any;
use lock_tower::http::RequestDeadline;

use crate::tower::prelude::*;

pub(crate) fn config(text: &str) -> lock_runtime::policy::LockConfig {
    toml::from_str::<LockFile>(text).unwrap().lock
}

/// A client with that configuration, and another process.
pub(crate) fn clients(text: &str) -> (LockClient, LockClient) {
    let store = MemoryStore::new();
    let locks = LockClient::builder().config(config(text)).store(store.clone()).unwrap();
    (locks, LockClient::builder().store(store.peer()).unwrap())
}

async fn ask(layer: &HttpLockLayer, request: Request<TestBody>) -> Response<impl Sized + use<>> {
    let answer = layer.layer(Calls::default().service()).oneshot(request);
    timeout(2 * PROMPTLY, answer).await.expect("a hang").unwrap()
}

pub(crate) async fn status(layer: &HttpLockLayer, request: Request<TestBody>) -> u16 {
    ask(layer, request).await.status().as_u16()
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
async fn literals_come_first_unless_the_configuration_says_so() {
    for (overrides, wait, busy, unmentioned) in [("literals", 1, 503, 200), ("config", 0, 423, 423)]
    {
        let (locks, peer) = clients(&format!("[lock]\noverride = {overrides:?}\n{CHECKOUT}"));
        let layer = LockLayer::http()
            .client(locks)
            .policy("checkout")
            .key("order:{header.x-cart}")
            .methods([Method::POST])
            .busy(BusyStatus::Conflict)
            .settings(LockSettings::default().wait(Wait::UpTo(secs(1))))
            .build()
            .unwrap();
        let (_other, start) = (peer.mutex("order:7").lock().await.unwrap(), Instant::now());
        assert_eq!(status(&layer, cart(Method::POST)).await, busy, "{overrides}");
        assert_eq!(start.elapsed().as_secs(), wait);
        assert_eq!(status(&layer, cart(Method::GET)).await, unmentioned, "{overrides}");
    }
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
    // What no layer can follow is logged, and what was before stays.
    let log = Log::start_at(tracing::Level::DEBUG);
    for bad in [CHECKOUT.replace("header.x-cart", "ext.cart"), "[lock.policies.other]".to_owned()] {
        locks.reload(config(&bad)).unwrap();
        let _basket = peer.mutex("basket:7").lock().await.unwrap();
        for _ in 0..3 {
            assert_eq!(status(&layer, cart(Method::POST)).await, 423);
        }
    }
    let log = log.text();
    assert_eq!(log.matches("keeps the previous one").count(), 2, "{log}");
    assert!(log.contains("ext.cart") && log.contains("no lock policy"), "{log}");
}

#[test]
fn what_a_policy_cannot_be_is_found_when_the_layer_is_built() {
    for (text, reason) in [
        (
            CHECKOUT.replace("header.x-cart", "ext.cart"),
            "an extension whose type the layer does not",
        ),
        ("[lock.policies.checkout]".to_owned(), "the layer has no key"),
        ("[lock.policies.chekout]".to_owned(), "did you mean \"chekout\"?"),
    ] {
        let layer = LockLayer::http().client(clients(&text).0).policy("checkout").build();
        let message = layer.unwrap_err().to_string();
        assert!(message.contains(reason), "{message}");
    }
}

/// Shadow mode: it runs, whatever the lock would have said, and the log has what that was.
#[tokio::test(start_paused = true)]
async fn what_is_not_enforced_delays_no_call() {
    let text = CHECKOUT.replace("wait = \"none\"", "wait = \"forever\"\nenforce = 0");
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
        let moody = Moody::new(MemoryStore::new(), Mood::Failing(StoreErrorKind::Unavailable));
        let failing = LockClient::builder().config(config(&text)).store(moody).unwrap();
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

pub(crate) fn request(method: &str, path: &str) -> Request<TestBody> {
    Request::builder().method(method).uri(path).body(TestBody::default()).unwrap()
}

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

#[tokio::test(start_paused = true)]
async fn routes_are_the_routers() {
    async fn send(app: &Router, path: &str) -> String {
        let request = Request::post(path).body(Body::empty()).unwrap();
        seen(app.clone().oneshot(request).await.unwrap()).await
    }
    let text = format!(
        "{ROUTES}\n[[lock.routes]]\npath = '/v1/{{tenant}}/bills/{{id}}'\npolicy = 'order'\n\
         key = 'bill:{{path.tenant}}:{{path.id}}'"
    );
    let (locks, peer) = clients(&text);
    let layer = || LockLayer::routes(&locks).unwrap();
    let done = || any(async || "done");
    let inner = Router::new().route("/bills/{bill}", done());
    let app = Router::new()
        .route("/orders/{order}/pay", done())
        .route("/orders/special", done())
        .nest("/v1/{t}", inner.clone());
    let around = app.clone().layer(layer());
    let of_routes = app.route_layer(layer());
    let _pay = peer.mutex("order:42").lock().await.unwrap();
    let _special = peer.mutex("/orders/%7Bid%7D:special").lock().await.unwrap();
    let _bill = peer.mutex("bill:a:7").lock().await.unwrap();
    for app in [around, of_routes] {
        for (path, expected) in [
            ("/orders/42/pay", "409"),
            ("/orders/43/pay", "200"),
            // A route of its own in the router, and none of the configuration's.
            ("/orders/special", "200"),
            ("/v1/a/bills/7", "409"),
            ("/v1/b/bills/7", "200"),
            ("/nowhere", "404"),
        ] {
            let answer = send(&app, path).await;
            assert!(answer.starts_with(expected), "{path}: {answer}");
        }
    }
    // A service that is nested whole has routed nothing yet.
    let whole = Router::new().nest_service("/v1/{t}", inner.clone()).layer(layer());
    // Inside a nested router, the path lacks what came before.
    let inside = Router::new().nest("/v1/{t}", inner.route_layer(layer()));
    for app in [whole, inside] {
        assert!(send(&app, "/v1/a/bills/7").await.starts_with("409 "));
        assert!(send(&app, "/v1/b/bills/7").await.starts_with("200 "));
    }
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
        assert!(message.starts_with(reason), "{message}");
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

#[test]
fn a_configuration_is_checked_before_a_reload() {
    let (locks, _) = clients(CHECKOUT);
    let layer = LockLayer::http().client(locks.clone()).policy("checkout").build().unwrap();
    layer.check(&locks, &locks.config().unwrap()).unwrap();
    for (text, problem) in [
        ("[lock.policies.other]", "no lock policy \"checkout\""),
        ("[lock.policies.checkout]", "the layer has no key"),
        ("[lock.policies.checkout]\nkey = 'a:{ext.bar}'", "ext.bar"),
    ] {
        let error = layer.check(&locks, &config(text)).unwrap_err().to_string();
        assert!(error.contains(problem), "{text}: {error}");
    }
    // Nothing is in effect by being checked.
    assert!(locks.policy("checkout").is_ok());
    let routes = LockLayer::http().client(locks.clone()).routes().build().unwrap();
    let bad = config(
        "[lock.policies.p]\nkey = '{ext.nr}'\n[[lock.routes]]\npath = '/{id}'\npolicy = 'p'",
    );
    let error = routes.check(&locks, &bad).unwrap_err().to_string();
    assert!(error.starts_with("lock.routes[0] (/{id}): `{ext.nr}` is an extension"), "{error}");
}

/// New defaults that contradict the settings of a layer without a policy: every request would be a 500.
#[test]
fn defaults_that_contradict_the_code_are_refused_before_a_reload() {
    let (locks, _) = clients("[lock.defaults]\nwait = '1s'");
    let fixed = LockSettings::default().lease(Lease::Fixed(secs(10)));
    let layer = LockLayer::http().key("a").client(locks.clone());
    let set = layer.clone().settings(fixed).build().unwrap();
    let complete = waits_and_holds(Wait::Never, secs(10));
    let complete = layer.options(complete).build().unwrap();
    let defaults = config("[lock.defaults]\nmax_hold = '1m'");
    let error = set.check(&locks, &defaults).unwrap_err().to_string();
    assert!(error.contains("max_hold"), "{error}");
    complete.check(&locks, &defaults).unwrap();
    set.check(&locks, &config("[lock.defaults]\nwait = '2s'")).unwrap();
}

/// A parameter that the router does not have: every request would be a 500.
#[tokio::test]
async fn a_parameter_that_no_route_has_is_refused_before_a_reload() {
    let text = |key: &str| config(&format!("[lock.policies.p]\nkey = '{key}'"));
    let locks = LockClient::builder().config(text("order:{path.id}")).in_memory().unwrap();
    let layer = LockLayer::http().client(locks.clone()).policy("p").build().unwrap();
    let done = || post(async || "done");
    let app: Router = Router::new()
        .route("/orders/{id}/pay", done())
        .route("/orders/{id}/lines/{line}", done())
        .route_layer(layer.clone());
    let check = |key: &str| layer.check(&locks, &text(key)).map_err(|error| error.to_string());
    let refused = |key: &str| {
        let error = check(key).unwrap_err();
        assert!(error.starts_with("`{path.nr}` is in no route"), "{error}");
    };
    // Before there was a request, instances that have had one and others take the same configuration.
    assert_eq!(check("line:{path.line}"), Ok(()));
    assert_eq!(check("bill:{path.id}"), Ok(()));
    assert_eq!(check("bill:{header.x-order}"), Ok(()));
    for path in ["/orders/42/pay", "/orders/42/lines/7"] {
        let request = Request::post(path).body(Body::empty()).unwrap();
        assert_eq!(app.clone().oneshot(request).await.unwrap().status(), StatusCode::OK);
    }
    assert_eq!(check("line:{path.line}"), Ok(()), "seen");
    refused("order:{path.nr}");
    refused("order:{path.id}:{path.nr}");
    // A layer that knows of no parameter cannot tell, and one that was told its route can.
    let locks = LockClient::builder().config(text("all")).in_memory().unwrap();
    let unknown = LockLayer::http().client(locks.clone()).policy("p").build().unwrap();
    assert!(unknown.check(&locks, &text("{path.nr}")).is_ok());
    let told = LockLayer::http().client(locks.clone()).policy("p").route("/{id}").build().unwrap();
    assert!(told.check(&locks, &text("{path.nr}")).is_err());
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
        let code = || LockLayer::http().client(locks.clone()).key("k").wait(Wait::Never);
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
