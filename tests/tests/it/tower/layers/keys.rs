//! Which lock a request takes.

use axum::extract::Path;

use crate::tower::prelude::*;

/// The status of the answer, and whether `key` was held while the handler ran.
async fn run(
    layer: impl FnOnce(HttpLockLayerBuilder) -> HttpLockLayerBuilder,
    request: Request<TestBody>,
    key: &str,
) -> (u16, Option<bool>) {
    let store = MemoryStore::new();
    let locks = LockClient::builder().store(store.clone()).unwrap();
    let (seen, key) = (Arc::new(Mutex::new(None)), key.to_owned());
    let look = seen.clone();
    let service = layer(LockLayer::http().client(locks)).build().unwrap().layer(runs(move || {
        *look.lock().unwrap() = Some(held(&store, &key) == 1);
        async {}
    }));
    let status = service.oneshot(request).await.unwrap().status().as_u16();
    let seen = seen.lock().unwrap().take();
    (status, seen)
}

fn post_to(path: &str) -> Request<TestBody> {
    let request = Request::post(path).header("x-tenant", "a:b").header("x-user", "c");
    request.body(Full::default()).unwrap()
}

const OK: (u16, Option<bool>) = (200, Some(true));
const UNLOCKED: (u16, Option<bool>) = (200, Some(false));
const REFUSED: (u16, Option<bool>) = (400, None);

#[tokio::test(start_paused = true)]
async fn templates_are_filled_and_escaped() {
    for (template, route, path, key) in [
        ("nightly", None, "/", "nightly"),
        ("{method}:x", None, "/", "POST:x"),
        ("t:{header.X-Tenant}:{header.x-user}", None, "/", "t:a%3Ab:c"),
        ("o:{path.id}", Some("/orders/{id}"), "/orders/42?id=7", "o:42"),
        ("o:{path.id}", Some("/orders/{id}"), "/orders/4%3A2", "o:4%3A2"),
        ("o:{path.id}", Some("/orders/{id}"), "/orders/%34%32", "o:42"),
        ("f:{path.f}", Some("/files/{*f}"), "/files/a/b%20c", "f:a/b%20c"),
        ("{{{path.id}}}:x", Some("/{id}"), "/42", "{42}:x"),
        ("{path.b}:{path.a}", Some("/{a}/{b}"), "/1/2", "2:1"),
        ("{route}:{path.id}", Some("/orders/{id}"), "/orders/42", "/orders/%7Bid%7D:42"),
        ("q:{query.q}", None, "/?a=1&q=b%3Ac+d&qq=2", "q:b%3Ac%20d"),
        ("q:{query.a b}", None, "/?a+b=7", "q:7"),
        ("q:{query.a b}:{query.c}", None, "/?c=8&a%20b=%2B", "q:+:8"),
    ] {
        let layer = |layer: HttpLockLayerBuilder| {
            let layer = layer.key(template);
            if let Some(route) = route { layer.route(route) } else { layer }
        };
        assert_eq!(run(layer, post_to(path), key).await, OK, "{template} {path}");
    }
}

/// A request that lacks a value may pass; one whose value is not to be told is refused in any case.
#[tokio::test(start_paused = true)]
async fn values_that_are_missing_or_ambiguous_are_refused() {
    let order = |layer: HttpLockLayerBuilder| layer.key("k:{path.id}").route("/orders/{id}/pay");
    let query = |layer: HttpLockLayerBuilder| layer.key("k:{query.q}");
    for (is_query, path, skipped) in [
        (false, "/orders/42", UNLOCKED),
        (false, "/orders//pay", UNLOCKED),
        (false, "/orders/%FF/pay", REFUSED),
        (true, "/", UNLOCKED),
        (true, "/?p=1", UNLOCKED),
        (true, "/?q=1&q=2", REFUSED),
        (true, "/?q=1&%71=1", REFUSED),
        (true, "/?q=", REFUSED),
        (true, "/?q", REFUSED),
        (true, "/?q=%FF", REFUSED),
    ] {
        let layer = |layer| if is_query { query(layer) } else { order(layer) };
        assert_eq!(run(layer, post_to(path), "k:1").await, REFUSED, "{path}");
        let skips = |builder| layer(builder).skip_missing_key(true);
        assert_eq!(run(skips, post_to(path), "k:1").await, skipped, "{path}");
    }
}

/// A typed value is in the key as the `KeyPart` of its type writes it, wherever it comes from; what is no such value is
/// refused.
#[tokio::test(start_paused = true)]
async fn typed_values_have_one_spelling() {
    const UUID: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";
    for (value_type, text, key) in [
        ("u8", "007", Some("7")),
        ("u8", "256", None),
        ("u16", "+65535", Some("65535")),
        ("u32", "0x7", None),
        ("u64", "18446744073709551615", Some("18446744073709551615")),
        ("u64", "-1", None),
        ("u64", "%31", Some("1")),
        ("u64", "1_000", None),
        ("u64", "7%20", None),
        (
            "u128",
            "0340282366920938463463374607431768211455",
            Some("340282366920938463463374607431768211455"),
        ),
        ("usize", "042", Some("42")),
        ("i8", "-0", Some("0")),
        ("i16", "-032768", Some("-32768")),
        ("i32", "+0", Some("0")),
        ("i64", "9223372036854775808", None),
        ("i128", "-01", Some("-1")),
        ("isize", "-042", Some("-42")),
        ("uuid", "67E5504410B1426F9247BB680E5FE0C8", Some(UUID)),
        ("uuid", "%7B67e55044-10b1-426f-9247-bb680e5fe0c8%7D", Some(UUID)),
        ("uuid", "urn:uuid:67e55044-10b1-426f-9247-bb680e5fe0c8", Some(UUID)),
        ("uuid", "67e55044", None),
    ] {
        let outcome = if key.is_some() { OK } else { REFUSED };
        let key = format!("o:{}", key.unwrap_or_default());
        let header = Request::post("/").header("x-id", text).body(Full::default()).unwrap();
        for (template, request) in [
            ("path.id", post_to(&format!("/orders/{text}"))),
            ("query.id", post_to(&format!("/?id={}", text.replace('+', "%2B")))),
            ("header.x-id", header),
        ] {
            if template == "header.x-id" && text.contains('%') {
                continue; // a header is not decoded
            }
            let layer = |layer: HttpLockLayerBuilder| {
                let layer = layer.key(format!("o:{{{template}:{value_type}}}"));
                if template == "path.id" { layer.route("/orders/{id}") } else { layer }
            };
            assert_eq!(run(layer, request, &key).await, outcome, "{template} {value_type} {text}");
        }
    }
}

/// Without re-entry it would find its own lock busy.
#[distributed_lock(key = "order:{id}", wait = none, client = locks, guard = hold)]
async fn charge(locks: &LockClient, id: u64) -> Result<FencingToken, LockError> {
    Ok(hold.token())
}

/// The types of a file, in a policy and in a route of its own; each spelling is the lock of an attribute.
#[tokio::test]
async fn keys_of_a_file_have_types() {
    async fn pay(Path(id): Path<u64>, held: HeldLock, State(locks): State<LockClient>) {
        let token = charge(&locks, id).await.unwrap();
        assert_eq!(token, held.token(), "one hold, the layer's");
    }
    let text = "[lock.policies.pay]\nkey = 'order:{path.id:u64}'\n\
                [[lock.routes]]\npath = '/orders/{id}/pay'\npolicy = 'pay'\n\
                [[lock.routes]]\npath = '/bills/{id}'\npolicy = 'pay'\nkey = 'bill:{path.id:u8}'";
    let (locks, _) = clients(text);
    let app =
        Router::new().route("/orders/{id}/pay", post(pay)).route("/bills/{id}", post(async || ()));
    let app = app.route_layer(LockLayer::routes(&locks).unwrap()).with_state(locks);
    for (path, status) in [
        ("/orders/42/pay", 200),
        ("/orders/042/pay", 200),
        ("/orders/+42/pay", 200),
        ("/bills/7", 200),
        ("/bills/256", 400),
    ] {
        assert_eq!(send(&app, "POST", path).await.status(), status, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn extensions_are_named_by_their_type_and_closures_see_them() {
    #[derive(Clone, lock_runtime::KeyPart)]
    struct Tenant(u32);
    let of_a_tenant = || {
        let mut request = post_to("/");
        request.extensions_mut().insert(Tenant(7));
        request
    };
    let layer = |layer: HttpLockLayerBuilder| {
        layer.extension::<Tenant>("tenant").key("t:{ext.tenant}:{header.x-tenant}")
    };
    let skip = |builder| layer(builder).skip_missing_key(true);
    // As with every other setting, the last one counts.
    let renamed = |builder: HttpLockLayerBuilder| layer(builder.extension::<u64>("tenant"));
    assert_eq!(run(layer, of_a_tenant(), "t:7:a%3Ab").await, OK);
    assert_eq!(run(renamed, of_a_tenant(), "t:7:a%3Ab").await, OK);
    assert_eq!(run(layer, post_to("/"), "t:7:a%3Ab").await, REFUSED);
    assert_eq!(run(skip, post_to("/"), "t:7:a%3Ab").await, UNLOCKED);
    let unknown = LockLayer::http().extension::<Tenant>("tenant").key("{ext.user}").build();
    let message = unknown.unwrap_err().to_string();
    assert!(
        message.contains("`extension::<Type>(\"user\")`, it knows `{ext.tenant}`"),
        "{message}"
    );
    let closure = |layer: HttpLockLayerBuilder| {
        layer.key_fn(|head| {
            let Some(tenant) = head.extensions.get::<Tenant>() else { return Ok(None) };
            Ok(Some(LockKey::builder().text("user:").part(tenant).build()?))
        })
    };
    assert_eq!(run(closure, of_a_tenant(), "user:7").await, OK);
    assert_eq!(run(closure, post_to("/"), "user:7").await, UNLOCKED, "`None` passes");
}

#[tokio::test(start_paused = true)]
async fn the_request_reaches_the_handler_as_it_came() {
    let layer = LockLayer::http().key("k").client(LockClient::in_memory()).build().unwrap();
    let service = layer.layer(service_fn(|request: Request<&'static str>| async move {
        assert_eq!(request.headers()["x-a"], "1");
        assert_eq!(request.extensions().get::<u32>(), Some(&7));
        assert_eq!(request.version(), http::Version::HTTP_2);
        let response = Response::builder().status(101).header("x-b", 2).extension(8_u64);
        Ok::<_, Infallible>(response.body(Full::<Bytes>::from(*request.body())).unwrap())
    }));
    let request = Request::put("/a?b").version(http::Version::HTTP_2).header("x-a", 1);
    let response = service.oneshot(request.extension(7_u32).body("body").unwrap()).await.unwrap();
    assert_eq!((response.status().as_u16(), &response.headers()["x-b"]), (101, &2.into()));
    assert_eq!(response.extensions().get::<u64>(), Some(&8));
}
