//! Configured routes beside a router's: which of its routes they are about, and what is said of others.

use axum::routing::any;

use crate::tower::layers::policies::clients;
use crate::tower::prelude::*;

/// A client whose configuration has these routes, each with its key, and another process that holds the
/// locks of these names.
async fn world(routes: &[(&str, &str)], held: &[&str]) -> (LockClient, Vec<LockGuard>) {
    let routes = routes.iter().map(|(path, key)| {
        format!("[[lock.routes]]\npath = '{path}'\npolicy = 'busy'\nkey = '{key}'\n")
    });
    let text = "[lock.policies.busy]\nwait = 'none'\n".to_owned() + &routes.collect::<String>();
    let (client, peer) = clients(&text);
    let mut guards = Vec::new();
    for name in held {
        guards.push(peer.mutex(*name).lock().await.unwrap());
    }
    (client, guards)
}

fn app(paths: &[&str]) -> Router {
    paths.iter().fold(Router::new(), |app, path| app.route(path, any(async || "done")))
}

async fn send(app: &Router, method: &str, path: &str) -> u16 {
    let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    app.clone().oneshot(request).await.unwrap().status().as_u16()
}

/// That each path is answered so, with the layer on all of the router and on its routes.
async fn expect(app: &Router, client: &LockClient, table: &[(&str, u16)]) {
    let layer = || LockLayer::routes(client).unwrap();
    for app in [app.clone().layer(layer()), app.clone().route_layer(layer())] {
        for (path, expected) in table {
            assert_eq!(send(&app, "POST", path).await, *expected, "{path}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_closer_look_than_the_routers_is_a_route() {
    let routes = [("/orders/mine", "mine"), ("/orders/{nr}", "order:{path.nr}")];
    let (client, _held) = world(&routes, &["mine", "order:42"]).await;
    let app = app(&["/orders/{id}", "/orders/{id}/{part}"]);
    let table = [
        ("/orders/mine", 409),
        ("/orders/%6Dine", 409),
        ("/orders/42", 409),
        ("/orders/43", 200),
        ("/orders/mine/1", 200),
    ];
    expect(&app, &client, &table).await;
}

#[tokio::test(start_paused = true)]
async fn what_the_router_takes_whole_has_any_route() {
    let routes = [("/files/{folder}/{file}", "{path.folder}:{path.file}"), ("/files/top", "top")];
    let (client, _held) = world(&routes, &["a:b", "top"]).await;
    let app = app(&["/files/{*path}"]);
    let table = [("/files/a/b", 409), ("/files/b/a", 200), ("/files/top", 409), ("/files/a", 200)];
    expect(&app, &client, &table).await;
}

#[tokio::test(start_paused = true)]
async fn the_rest_is_all_of_the_routers_routes_from_there_on() {
    let (client, _held) = world(&[("/admin/{*rest}", "admin")], &["admin"]).await;
    let nested = app(&["/", "/{id}/keys"]);
    let app =
        app(&["/admin", "/admin/{page}", "/admin/users/{id}", "/administer", "/admin/a/{*b}"])
            .nest("/admin/hosts", nested.clone())
            .nest_service("/admin/disks/{disk}", nested);
    let table = [
        ("/admin/settings", 409),
        ("/admin/users/7", 409),
        ("/admin/a/b/c", 409),
        ("/admin/hosts", 409),
        ("/admin/hosts/7/keys", 409),
        ("/admin/disks/1/7/keys", 409),
        // As in a router, the rest is not nothing.
        ("/admin", 200),
        ("/administer", 200),
    ];
    expect(&app, &client, &table).await;
}

#[tokio::test(start_paused = true)]
async fn fixed_text_is_what_it_decodes_to() {
    let app = app(&["/caf%C3%A9/{nr}"]);
    for path in ["/café/{id}", "/caf%C3%A9/{id}", "/c%61f%c3%a9/{id}"] {
        let (client, _held) = world(&[(path, "table:{path.id}")], &["table:1"]).await;
        expect(&app, &client, &[("/caf%C3%A9/1", 409), ("/caf%C3%A9/2", 200)]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nested_routers_have_one_pattern() {
    let routes = [
        ("/v1/{tenant}/bills/{id}", "bill:{path.tenant}:{path.id}"),
        ("/v1/{tenant}", "tenant:{path.tenant}"),
        ("/v1/{tenant}/", "slash:{path.tenant}"),
    ];
    let (client, _held) = world(&routes, &["bill:a:7", "tenant:a", "slash:b"]).await;
    let layer = || LockLayer::routes(&client).unwrap();
    let inner = app(&["/", "/bills/{bill}", "/bills/open"]);
    let apps = [
        Router::new().nest("/v1/{t}", inner.clone()).layer(layer()),
        Router::new().nest("/v1/{t}", inner.clone().route_layer(layer())),
        Router::new().nest("/v1", Router::new().nest("/{t}", inner.clone().layer(layer()))),
        // Here the router's pattern for the mount point has a slash more than the path.
        Router::new().nest_service("/v1/{t}", inner.route_layer(layer())),
    ];
    for (at, app) in apps.iter().enumerate() {
        for (path, expected) in
            [("/v1/a/bills/7", 409), ("/v1/b/bills/7", 200), ("/v1/a", 409), ("/v1/b", 200)]
        {
            assert_eq!(send(app, "POST", path).await, expected, "{at}: {path}");
        }
    }
    assert_eq!(send(&apps[3], "POST", "/v1/a/").await, 200);
    assert_eq!(send(&apps[3], "POST", "/v1/b/").await, 409);
}

/// Where no router has chosen, the path decides.
#[tokio::test(start_paused = true)]
async fn a_fallback_has_no_pattern() {
    let (client, _held) =
        world(&[("/v1/{tenant}/{id}", "{path.tenant}:{path.id}")], &["a:7"]).await;
    let layer = || LockLayer::routes(&client).unwrap();
    let done = || any(async || "done");
    let (one, log) = (app(&["/v1/a/special"]), Log::start_at(tracing::Level::DEBUG));
    let inner = Router::new().fallback(async || "done");
    for app in [
        one.clone().fallback(async || "done").layer(layer()),
        one.clone().fallback_service(done()).layer(layer()),
        one.clone().fallback_service(app(&["/v1/{t}/{nr}"])).layer(layer()),
        one.clone().fallback_service(app(&["/v1/{t}/{nr}"]).route_layer(layer())),
        one.nest("/v1", inner.clone()).layer(layer()),
        Router::new().nest("/v1/{t}", inner.clone()).layer(layer()),
        Router::new().nest_service("/v1/{t}", inner.layer(layer())),
    ] {
        assert_eq!(send(&app, "POST", "/v1/a/7").await, 409);
        assert_eq!(send(&app, "POST", "/v1/a/8").await, 200);
    }
    assert!(!log.text().contains("runs without a lock"), "{}", log.text());
}

/// The routes of a file, with the paths of an application whose routes are the same, or are others: a path is locked by
/// one of the two ways to look a route up if and only if it is locked by the other.
#[tokio::test(start_paused = true)]
async fn what_one_router_locks_the_other_locks() {
    const CONFIGURED: [&str; 9] = [
        "/",
        "/orders",
        "/orders/{id}",
        "/orders/mine",
        "/orders/{id}/pay",
        "/{tenant}/bills/{nr}",
        "/admin/{*rest}",
        "/café/{table}",
        "/files/{a}/",
    ];
    const LOCKED: [&str; 15] = [
        "/",
        "/orders",
        "/orders/7",
        "/orders/%37",
        "/orders/mine",
        "/orders/%6Dine",
        "/orders/special",
        "/orders/7/pay",
        // As axum's router has it.
        "/orders//pay",
        "/acme/bills/7",
        "/orders/bills/7",
        "/admin/users/7/keys",
        "/admin/page",
        "/caf%C3%A9/1",
        "/files/a/",
    ];
    const FREE: [&str; 9] = [
        "/orders/",
        "/orders/7/",
        "/orders/7/refund",
        "/admin",
        "/admin/",
        "/acme/bills",
        "/cafe/1",
        "/files/a",
        "/files/a/b",
    ];
    let routes = CONFIGURED.map(|path| (path, "busy"));
    let (client, _held) = world(&routes, &["busy"]).await;
    let layer = || LockLayer::routes(&client).unwrap();
    let done =
        service_fn(|_: Request<Body>| async { Ok::<_, Infallible>(Response::new(Body::empty())) });
    let same =
        CONFIGURED.map(|path| if path == "/café/{table}" { "/caf%C3%A9/{table}" } else { path });
    let others = [
        "/",
        "/{a}",
        "/{a}/{b}",
        "/{a}/{b}/",
        "/orders/special",
        "/orders/{order}/{step}",
        "/{tenant}/bills/{bill}",
        "/admin/{page}",
        "/admin/users/{id}/keys",
        "/files/{*all}",
    ];
    let by_axum = [app(&same), app(&others), Router::new()].map(|app| app.fallback_service(done));
    for (paths, expected) in [(&LOCKED[..], 409), (&FREE[..], 200)] {
        for path in paths {
            let request = || Request::post(*path).body(Body::empty()).unwrap();
            let by_path = layer().layer(done).oneshot(request()).await.unwrap();
            assert_eq!(by_path.status().as_u16(), expected, "{path}, without a router");
            for (at, app) in by_axum.iter().enumerate() {
                let app = app.clone().layer(layer());
                assert_eq!(send(&app, "POST", path).await, expected, "{path}, in router {at}");
            }
        }
    }
}

/// An outer service may have rewritten the path: the router's route is then what is locked, with its values.
#[tokio::test(start_paused = true)]
async fn a_route_of_the_router_is_found_by_its_text() {
    for (key, name) in
        [("busy", "busy"), ("pay:{path.id}", "pay:7"), ("at:{route}", "at:/orders/%7Bid%7D/pay")]
    {
        let (client, _held) = world(&[("/orders/{id}/pay", key)], &[name]).await;
        let inner = app(&["/orders/{id}/pay"]).layer(LockLayer::routes(&client).unwrap());
        let rewritten = service_fn(move |mut request: Request<Body>| {
            *request.uri_mut() = "/orders/7/pay".parse().unwrap();
            inner.clone().oneshot(request)
        });
        let app = Router::new().fallback_service(rewritten);
        assert_eq!(send(&app, "POST", "/old/pay").await, 409, "{key}");
    }
}

/// Two routes of one path, each with the methods of its policy: a request goes to the one that locks it.
#[tokio::test(start_paused = true)]
async fn policies_share_a_path_by_their_methods() {
    let route = |policy| format!("[[lock.routes]]\npath = '/orders/{{id}}'\npolicy = '{policy}'\n");
    let policy = |name, methods| {
        format!(
            "[lock.policies.{name}]\nkey = '{name}:{{path.id}}'\nwait = 'none'\nhttp = {{ methods = {methods} }}\n"
        )
    };
    let text = policy("read", "['GET']") + &policy("pay", "['POST']") + &policy("other", "'all'");
    let (client, peer) = clients(&(text + &route("read") + &route("pay") + &route("other")));
    let app = app(&["/orders/{order}"]);
    let locks = LockLayer::routes(&client).unwrap();
    let app = [app.clone().layer(locks.clone()), app.route_layer(locks)];
    for (busy, refused) in
        [("read:42", ["GET", "HEAD"].as_slice()), ("pay:42", &["POST"]), ("other:42", &["PUT"])]
    {
        let guard = peer.mutex(busy).lock().await.unwrap();
        for (app, method) in
            app.iter().flat_map(|app| ["GET", "HEAD", "POST", "PUT"].map(|m| (app, m)))
        {
            let expected = if refused.contains(&method) { 409 } else { 200 };
            assert_eq!(send(app, method, "/orders/42").await, expected, "{method} with {busy}");
        }
        guard.release().await.unwrap();
    }
}

/// A policy without methods leaves those that only read to the next route, whatever they are called.
#[tokio::test(start_paused = true)]
async fn a_route_hides_no_method_that_it_does_not_lock() {
    let route = |policy| format!("[[lock.routes]]\npath = '/orders/{{id}}'\npolicy = '{policy}'\n");
    let policy = |name, http| {
        format!(
            "[lock.policies.{name}]\nkey = '{name}:{{path.id}}'\nwait = 'none'\nhttp = {http}\n"
        )
    };
    let text = policy("pay", "{}") + &policy("all", "{ methods = 'all' }");
    let (client, peer) = clients(&(text + &route("pay") + &route("all")));
    let app = app(&["/orders/{order}"]).layer(LockLayer::routes(&client).unwrap());
    let _held = peer.mutex("all:42").lock().await.unwrap();
    for method in ["GET", "HEAD", "OPTIONS", "TRACE"] {
        assert_eq!(send(&app, method, "/orders/42").await, 409, "{method}");
    }
    assert_eq!(send(&app, "POST", "/orders/42").await, 200);
}

/// A path that the router does not have locks nothing: the layer says so with the first request for the route that was
/// meant, or at the start if it is given the router's paths.
#[tokio::test(start_paused = true)]
async fn a_misspelt_path_is_told_of_once() {
    let (client, _held) =
        world(&[("/order/{id}/pay", "order"), ("/bills/{id}", "bill")], &[]).await;
    let log = Log::start_at(tracing::Level::WARN);
    let paths = ["/orders/{id}/pay", "/bills/{id}", "/bills/{id}/", "/other"];
    let app = app(&paths).layer(LockLayer::routes(&client).unwrap());
    assert_eq!(send(&app, "GET", "/orders/7/pay").await, 200, "it would not be locked anyway");
    for path in ["/bills/7", "/other", "/nowhere"] {
        send(&app, "POST", path).await;
    }
    assert_eq!(log.text(), "");
    for _ in 0..10 {
        assert_eq!(send(&app, "POST", "/orders/7/pay").await, 200);
        assert_eq!(send(&app, "POST", "/bills/7/").await, 200);
    }
    let told = log.lines_with("runs without a lock");
    assert_eq!(told.len(), 2, "{}", log.text());
    for (line, configured, router) in [
        (&told[0], "/order/{id}/pay", "/orders/{id}/pay"),
        (&told[1], "/bills/{id}", "/bills/{id}/"),
    ] {
        assert!(line.contains(&format!("configured=\"{configured}\"")), "{line}");
        assert!(line.contains(&format!("router=\"{router}\"")), "{line}");
    }
    let error = HttpLockLayer::check_paths(&client.config().unwrap(), paths).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid lock options: lock.routes[0] (/order/{id}/pay) is no path of the router; did you mean /orders/{id}/pay?"
    );
}

#[tokio::test(start_paused = true)]
async fn a_configuration_without_routes_is_told_of() {
    let log = Log::start_at(tracing::Level::WARN);
    let (client, _held) = world(&[], &[]).await;
    let layer = LockLayer::routes(&client).unwrap();
    assert_eq!(log.lines_with("it locks no request").len(), 1, "{}", log.text());
    assert_eq!(send(&app(&["/a"]).layer(layer), "POST", "/a").await, 200);
    assert_eq!(log.lines_with("it locks no request").len(), 1, "{}", log.text());
}
