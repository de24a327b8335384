//! Configured routes beside a router's: which of its routes they are about, and what is said of others.

use axum::routing::any;

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

/// That each path is answered so.
async fn expect(app: &Router, table: &[(&str, u16)]) {
    for (path, expected) in table {
        assert_eq!(send(app, "POST", path).await.status(), *expected, "{path}");
    }
}

/// A configured route has its own values of a path, whichever of the router's routes that is, and whether the layer is on
/// all of the router or on its routes.
#[tokio::test(start_paused = true)]
async fn values_are_those_of_the_configured_route() {
    let routes = [
        ("/orders/mine", "mine"),
        ("/orders/{nr}", "order:{path.nr}"),
        ("/files/{folder}/{file}", "{path.folder}:{path.file}"),
        ("/c%61fé/{id}", "table:{path.id}"),
        ("/admin/{*rest}", "{path.rest}"),
    ];
    let held = ["mine", ORDER, "a:b", "table:1", "hosts/7/keys", "disks/1/7/keys"];
    let (client, _held) = world(&routes, &held).await;
    let nested = app(&["/", "/{id}/keys"]);
    let app = app(&[
        "/orders/{id}",
        "/orders/{id}/{part}",
        "/files/{*path}",
        "/caf%C3%A9/{nr}",
        "/admin",
    ])
    .nest("/admin/hosts", nested.clone())
    .nest_service("/admin/disks/{disk}", nested);
    let layer = || LockLayer::routes(&client).unwrap();
    for app in [app.clone().layer(layer()), app.clone().route_layer(layer())] {
        let table = [
            ("/orders/mine", 409),
            ("/orders/%6Dine", 409),
            ("/orders/42", 409),
            ("/orders/43", 200),
            ("/orders/mine/1", 200),
            ("/files/a/b", 409),
            ("/files/b/a", 200),
            ("/files/a", 200),
            ("/caf%C3%A9/1", 409),
            ("/caf%C3%A9/2", 200),
            ("/admin/hosts/7/keys", 409),
            ("/admin/disks/1/7/keys", 409),
            ("/admin/hosts/8/keys", 200),
            // As in a router, the rest is not nothing.
            ("/admin", 200),
        ];
        expect(&app, &table).await;
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
    for app in &apps {
        let table =
            [("/v1/a/bills/7", 409), ("/v1/b/bills/7", 200), ("/v1/a", 409), ("/v1/b", 200)];
        expect(app, &table).await;
    }
    expect(&apps[3], &[("/v1/a/", 200), ("/v1/b/", 409)]).await;
}

/// Where no router has chosen, the path decides.
#[tokio::test(start_paused = true)]
async fn a_fallback_has_no_pattern() {
    let (client, _held) =
        world(&[("/v1/{tenant}/{id}", "{path.tenant}:{path.id}")], &["a:7"]).await;
    let layer = || LockLayer::routes(&client).unwrap();
    let (one, log) = (app(&["/v1/a/special"]), Log::start_at(tracing::Level::DEBUG));
    let inner = Router::new().fallback(async || "done");
    for app in [
        one.clone().fallback(async || "done").layer(layer()),
        one.clone().fallback_service(app(&["/v1/{t}/{nr}"])).layer(layer()),
        one.clone().fallback_service(app(&["/v1/{t}/{nr}"]).route_layer(layer())),
        one.nest("/v1", inner.clone()).layer(layer()),
        Router::new().nest("/v1/{t}", inner.clone()).layer(layer()),
        Router::new().nest_service("/v1/{t}", inner.layer(layer())),
    ] {
        expect(&app, &[("/v1/a/7", 409), ("/v1/a/8", 200)]).await;
    }
    assert!(!log.text().contains("runs without a lock"), "{}", log.text());
}

/// The routes of a file, with the paths of an application whose routes are the same, or are others: a path is locked by
/// one of the two ways to look a route up if and only if it is locked by the other.
#[tokio::test(start_paused = true)]
async fn what_one_router_locks_the_other_locks() {
    const CONFIGURED: &str = "/ /orders /orders/{id} /orders/mine /orders/{id}/pay \
        /{tenant}/bills/{nr} /admin/{*rest} /café/{table} /files/{a}/";
    // An empty parameter as axum's router has it.
    const LOCKED: &str = "/ /orders /orders/7 /orders/%37 /orders/mine /orders/%6Dine \
        /orders/special /orders/7/pay /orders//pay /acme/bills/7 /orders/bills/7 \
        /admin/users/7/keys /admin/page /caf%C3%A9/1 /files/a/";
    const FREE: &str = "/orders/ /orders/7/ /orders/7/refund /admin /admin/ /acme/bills /cafe/1 \
        /files/a /files/a/b";
    const OTHERS: &str = "/ /{a} /{a}/{b} /{a}/{b}/ /orders/special /orders/{order}/{step} \
        /{tenant}/bills/{bill} /admin/{page} /admin/users/{id}/keys /files/{*all}";
    let words = |text: &'static str| text.split_whitespace().collect::<Vec<_>>();
    let routes: Vec<_> = words(CONFIGURED).into_iter().map(|path| (path, "busy")).collect();
    let (client, _held) = world(&routes, &["busy"]).await;
    let same = CONFIGURED.replace("é", "%C3%A9");
    let by_axum =
        [app(&same.split_whitespace().collect::<Vec<_>>()), app(&words(OTHERS)), Router::new()];
    let layer = LockLayer::routes(&client).unwrap();
    let by_axum = by_axum.map(|app| app.fallback(async || "done").layer(layer.clone()));
    for (paths, expected) in [(LOCKED, 409), (FREE, 200)] {
        for path in words(paths) {
            let by_path = status(&layer, request("POST", path)).await;
            assert_eq!(by_path, expected, "{path}, without a router");
            for app in &by_axum {
                expect(app, &[(path, expected)]).await;
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
        expect(&Router::new().fallback_service(rewritten), &[("/old/pay", 409)]).await;
    }
}

/// Several routes of one path, each with the methods of its policy: a request goes to the first that locks it, and a policy
/// without methods leaves those that only read to the next, whatever they are called.
#[tokio::test(start_paused = true)]
async fn policies_share_a_path_by_their_methods() {
    for (policies, table) in [
        (
            &[
                ("read", "methods = ['GET']"),
                ("pay", "methods = ['POST']"),
                ("all", "methods = 'all'"),
            ][..],
            &[("read", "GET HEAD"), ("pay", "POST"), ("all", "PUT OPTIONS TRACE")][..],
        ),
        (
            &[("pay", ""), ("all", "methods = 'all'")],
            &[("pay", "POST PUT"), ("all", "GET HEAD OPTIONS TRACE")],
        ),
    ] {
        let text = policies.iter().map(|(name, http)| {
            format!(
                "[lock.policies.{name}]\nkey = '{name}:{{path.id}}'\nwait = 'none'\nhttp = {{ {http} }}\n\
                 [[lock.routes]]\npath = '/orders/{{id}}'\npolicy = '{name}'\n"
            )
        });
        let (client, peer) = clients(&text.collect::<String>());
        let (app, locks) = (app(&["/orders/{order}"]), LockLayer::routes(&client).unwrap());
        for app in [app.clone().layer(locks.clone()), app.route_layer(locks)] {
            for (busy, refused) in table {
                let guard = peer.mutex(format!("{busy}:42")).lock().await.unwrap();
                for method in ["GET", "HEAD", "OPTIONS", "TRACE", "POST", "PUT"] {
                    let expected =
                        if refused.split(' ').any(|it| it == method) { 409 } else { 200 };
                    let answer = send(&app, method, "/orders/42").await;
                    assert_eq!(answer.status(), expected, "{method} with {busy}");
                }
                guard.release().await.unwrap();
            }
        }
    }
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
    let answer = send(&app, "GET", "/orders/7/pay").await;
    assert_eq!(answer.status(), 200, "it would not be locked anyway");
    expect(&app, &[("/bills/7", 200), ("/other", 200), ("/nowhere", 404)]).await;
    assert_eq!(log.text(), "");
    for _ in 0..10 {
        expect(&app, &[("/orders/7/pay", 200), ("/bills/7/", 200)]).await;
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
    let said = "is no path of the router; did you mean /orders/{id}/pay?";
    assert!(error.to_string().ends_with(said), "{error}");
    let invalid = LockConfig::from_toml("[lock.policies.pay]\nhttp = { busy = 404 }").unwrap();
    let error = HttpLockLayer::check_paths(&invalid, paths).unwrap_err();
    assert!(error.to_string().contains("lock.policies.pay.http.busy"), "{error}");
    // A configuration without routes is told of, too.
    let (client, _held) = world(&[], &[]).await;
    let _layer = LockLayer::routes(&client).unwrap();
    assert_eq!(log.lines_with("it locks no request").len(), 1, "{}", log.text());
}
