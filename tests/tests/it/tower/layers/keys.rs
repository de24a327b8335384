//! Which lock a request takes.

use lock_tower::http::HttpLockLayer;

use crate::tower::prelude::*;

/// The status of the answer, and whether `key` was held while the handler ran.
async fn run(
    layer: impl FnOnce(HttpLockLayerBuilder) -> HttpLockLayerBuilder,
    request: Request<TestBody>,
    key: &str,
) -> (StatusCode, Option<bool>) {
    let store = MemoryStore::new();
    let locks = LockClient::builder().store(store.clone()).unwrap();
    let layer: HttpLockLayer = layer(LockLayer::http().client(locks)).build().unwrap();
    let (seen, key) = (Arc::new(Mutex::new(None)), key.to_owned());
    let look = seen.clone();
    let service = layer.layer(service_fn(move |_| {
        *look.lock().unwrap() = Some(held(&store, &key) == 1);
        async { Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())) }
    }));
    let status = service.oneshot(request).await.unwrap().status();
    let seen = seen.lock().unwrap().take();
    (status, seen)
}

fn post(path: &str) -> Request<TestBody> {
    let request = Request::post(path).header("x-tenant", "a:b").header("x-user", "c");
    request.body(Full::default()).unwrap()
}

const OK: (StatusCode, Option<bool>) = (StatusCode::OK, Some(true));
const UNLOCKED: (StatusCode, Option<bool>) = (StatusCode::OK, Some(false));
const REFUSED: (StatusCode, Option<bool>) = (StatusCode::BAD_REQUEST, None);

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
        assert_eq!(run(layer, post(path), key).await, OK, "{template} {path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_path_that_is_not_the_routes_is_refused_or_passes() {
    let reject = |layer: HttpLockLayerBuilder| layer.key("o:{path.id}").route("/orders/{id}/pay");
    let skip = |layer: HttpLockLayerBuilder| reject(layer).skip_missing_key(true);
    for path in ["/orders/42", "/orders/42/pay/", "/orders//pay", "/"] {
        assert_eq!(run(reject, post(path), "o:42").await, REFUSED, "{path}");
        assert_eq!(run(skip, post(path), "o:42").await, UNLOCKED, "{path}");
    }
    assert_eq!(run(skip, post("/orders/42/pay"), "o:42").await, OK);
    assert_eq!(run(skip, post("/orders/%FF/pay"), "o:42").await, REFUSED, "not UTF-8");
}

#[tokio::test(start_paused = true)]
async fn a_query_that_is_ambiguous_is_refused() {
    let reject = |layer: HttpLockLayerBuilder| layer.key("q:{query.q}");
    let skip = |layer: HttpLockLayerBuilder| reject(layer).skip_missing_key(true);
    for (path, skipped) in [
        ("/", UNLOCKED),
        ("/?p=1", UNLOCKED),
        ("/?q=1&q=2", REFUSED),
        ("/?q=1&%71=1", REFUSED),
        ("/?q=", REFUSED),
        ("/?q", REFUSED),
        ("/?q=%FF", REFUSED),
    ] {
        assert_eq!(run(reject, post(path), "q:1").await, REFUSED, "{path}");
        assert_eq!(run(skip, post(path), "q:1").await, skipped, "{path}");
    }
}

/// A typed value is in the key as the `KeyPart` of its type writes it; what is no such value is refused.
#[tokio::test(start_paused = true)]
async fn typed_values_have_one_spelling() {
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
            "00340282366920938463463374607431768211455",
            Some("340282366920938463463374607431768211455"),
        ),
        ("usize", "042", Some("42")),
        ("i8", "-0", Some("0")),
        ("i8", "-128", Some("-128")),
        ("i16", "-032768", Some("-32768")),
        ("i32", "+0", Some("0")),
        ("i64", "9223372036854775808", None),
        ("i128", "-01", Some("-1")),
        ("isize", "-042", Some("-42")),
        ("uuid", "67E5504410B1426F9247BB680E5FE0C8", Some("67e55044-10b1-426f-9247-bb680e5fe0c8")),
        ("uuid", "67e55044", None),
        ("uuid", "42", None),
    ] {
        let outcome = if key.is_some() { OK } else { REFUSED };
        let key = format!("o:{}", key.unwrap_or_default());
        let by_path = |layer: HttpLockLayerBuilder| {
            layer.key(format!("o:{{path.id:{value_type}}}")).route("/orders/{id}")
        };
        let path = post(&format!("/orders/{text}"));
        assert_eq!(run(by_path, path, &key).await, outcome, "{value_type} {text}");
        let by_query =
            |layer: HttpLockLayerBuilder| layer.key(format!("o:{{query.id:{value_type}}}"));
        let query = post(&format!("/?id={}", text.replace('+', "%2B")));
        assert_eq!(run(by_query, query, &key).await, outcome, "{value_type} {text}");
        if text.contains('%') {
            continue; // a header is not decoded
        }
        let by_header =
            |layer: HttpLockLayerBuilder| layer.key(format!("o:{{header.x-id:{value_type}}}"));
        let header = Request::post("/").header("x-id", text).body(Full::default()).unwrap();
        assert_eq!(run(by_header, header, &key).await, outcome, "{value_type} {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn extensions_are_named_by_their_type() {
    #[derive(Clone, lock_runtime::KeyPart)]
    struct Tenant(u32);
    let layer = |layer: HttpLockLayerBuilder| {
        layer.extension::<Tenant>("tenant").key("t:{ext.tenant}:{header.x-tenant}")
    };
    let mut request = post("/");
    request.extensions_mut().insert(Tenant(7));
    assert_eq!(run(layer, request, "t:7:a%3Ab").await, OK);
    assert_eq!(run(layer, post("/"), "t:7:a%3Ab").await, REFUSED);
    let skip = |builder| layer(builder).skip_missing_key(true);
    assert_eq!(run(skip, post("/"), "t:7:a%3Ab").await, UNLOCKED);
    // As with every other setting, the last one counts.
    let renamed = |builder: HttpLockLayerBuilder| layer(builder.extension::<u64>("tenant"));
    let mut request = post("/");
    request.extensions_mut().insert(Tenant(7));
    assert_eq!(run(renamed, request, "t:7:a%3Ab").await, OK);
    let unknown = LockLayer::http().extension::<Tenant>("tenant").key("{ext.user}").build();
    assert_eq!(
        unknown.unwrap_err().to_string(),
        "invalid lock options: `{ext.user}` is an extension whose type the layer does not know; name it with \
         `extension::<Type>(\"user\")`, it knows `{ext.tenant}`"
    );
}

#[tokio::test(start_paused = true)]
async fn closures_see_the_head_of_the_request() {
    let by_extension = |layer: HttpLockLayerBuilder| {
        layer.key_fn(|head| {
            let Some(user) = head.extensions.get::<u32>() else { return Ok(None) };
            Ok(Some(LockKey::builder().text("user:").part(user).build()?))
        })
    };
    let mut request = post("/");
    request.extensions_mut().insert(7_u32);
    assert_eq!(run(by_extension, request, "user:7").await, OK);
    assert_eq!(run(by_extension, post("/"), "user:7").await, UNLOCKED, "`None` passes");
}

#[tokio::test(start_paused = true)]
async fn the_request_reaches_the_handler_as_it_came() {
    let layer = LockLayer::http().key("k").client(LockClient::in_memory()).build().unwrap();
    let service = layer.layer(service_fn(|request: Request<&'static str>| async move {
        assert_eq!(request.headers()["x-a"], "1");
        assert_eq!(request.extensions().get::<u32>(), Some(&7));
        assert_eq!(request.version(), http::Version::HTTP_2);
        let mut response = Response::new(Full::<Bytes>::from(*request.body()));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().insert("x-b", 2.into());
        response.extensions_mut().insert(8_u64);
        Ok::<_, Infallible>(response)
    }));
    let mut request = Request::put("/a?b").version(http::Version::HTTP_2).body("body").unwrap();
    request.headers_mut().insert("x-a", 1.into());
    request.extensions_mut().insert(7_u32);
    let response = service.oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    assert_eq!(response.headers()["x-b"], "2");
    assert_eq!(response.extensions().get::<u64>(), Some(&8));
}
