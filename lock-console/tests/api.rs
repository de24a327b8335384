//! The console's requests: what it shows, to whom, and what it may do.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use futures_util::StreamExt;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use lock_console::{ConsoleOptions, router};
use lock_runtime::__layer_v1::bound_survey;
use lock_runtime::LockClient;
use lock_runtime::MemoryStore;
use lock_tests::{RedisServer, eventually};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tower::ServiceExt;

const SOON: Duration = Duration::from_secs(10);

fn request(method: Method, path: &str) -> http::request::Builder {
    Request::builder().method(method).uri(path).header(header::HOST, "console.test")
}

async fn send(app: &Router, request: Request<Body>) -> Response<Body> {
    timeout(SOON, app.clone().oneshot(request)).await.expect("no answer").unwrap()
}

async fn get(app: &Router, path: &str) -> Response<Body> {
    send(app, request(Method::GET, path).body(Body::empty()).unwrap()).await
}

async fn body(response: Response<Body>) -> String {
    let bytes = timeout(SOON, response.into_body().collect()).await.expect("no end").unwrap();
    String::from_utf8(bytes.to_bytes().to_vec()).unwrap()
}

async fn json_of(response: Response<Body>) -> Value {
    serde_json::from_str(&body(response).await).unwrap()
}

/// The next piece of an event stream that is not a comment.
async fn event(
    stream: &mut (impl futures_util::Stream<Item = Result<axum::body::Bytes, axum::Error>> + Unpin),
) -> String {
    loop {
        let piece = timeout(SOON, stream.next()).await.expect("no event").unwrap().unwrap();
        let text = String::from_utf8(piece.to_vec()).unwrap();
        if !text.starts_with(':') {
            return text;
        }
    }
}

#[tokio::test]
async fn the_page_may_load_nothing_else() {
    let app = router(LockClient::in_memory(), ConsoleOptions::new());
    for (path, kind) in
        [("/", "text/html"), ("/console.css", "text/css"), ("/console.js", "text/javascript")]
    {
        let response = get(&app, path).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        let headers = response.headers();
        assert!(headers[header::CONTENT_TYPE].to_str().unwrap().starts_with(kind), "{path}");
        let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
    }
    let nested = Router::new().nest("/admin/locks", app);
    let page = body(get(&nested, "/admin/locks").await).await;
    assert!(page.contains("src=\"./locks/console.js\""), "{page}");
    assert_eq!(get(&nested, "/admin/locks/console.js").await.status(), StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_on_a_server_are_shown() {
    let server = RedisServer::start().await;
    let client = LockClient::builder().service("billing").connect(&server.url()).await.unwrap();
    let _held = client.mutex("order:1").lock().await.unwrap();
    let app = router(client, ConsoleOptions::new());
    let survey = json_of(get(&app, "/api/survey").await).await;
    assert_eq!(survey["locks"][0]["key"], "order:1");
    assert_eq!(survey["locks"][0]["holders"][0]["client"]["service"], "billing");
    server.kill();
    let failed = async || get(&app, "/api/survey").await;
    eventually(SOON, "the outage shows", async || {
        failed().await.status() == StatusCode::BAD_GATEWAY
    })
    .await;
    let error = json_of(failed().await).await["error"].as_str().unwrap().to_owned();
    assert!(error.contains(&server.url().replace("redis://", "")), "{error}");
}

/// The viewers together cost one survey a second, and none is made without a viewer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn surveys_are_shared() {
    let server = RedisServer::start().await;
    let client = LockClient::connect(&server.url()).await.unwrap();
    let app = router(client, ConsoleOptions::new());
    let asked = async || server.command_calls().await.get("publish").copied().unwrap_or(0);
    let mut viewers = Vec::new();
    for _ in 0..3 {
        viewers.push(get(&app, "/api/events").await.into_body().into_data_stream());
    }
    let start = Instant::now();
    server.reset_stats().await;
    for _ in 0..4 {
        for viewer in &mut viewers {
            assert!(event(viewer).await.starts_with("event: survey\n"));
        }
    }
    // A survey is a request and an answer.
    let most = 2 * (start.elapsed().as_secs() + 2);
    let published = asked().await;
    assert!(published <= most, "{published} messages for 3 viewers in {:?}", start.elapsed());
    assert!(start.elapsed() >= Duration::from_millis(2_500), "more than one a second");

    drop(viewers);
    let mut before = asked().await;
    eventually(SOON, "the surveys end", async || {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let now = asked().await;
        std::mem::replace(&mut before, now) == now
    })
    .await;
}

/// A viewer that takes nothing keeps no more than the last survey, and delays no other.
#[tokio::test(start_paused = true)]
async fn a_slow_viewer_misses_surveys() {
    let client = LockClient::in_memory();
    let app = router(client.clone(), ConsoleOptions::new());
    let mut slow = get(&app, "/api/events").await.into_body().into_data_stream();
    let mut quick = get(&app, "/api/events").await.into_body().into_data_stream();
    event(&mut slow).await;
    for number in 0..50 {
        let _held = client.mutex(format!("order:{number}")).lock().await.unwrap();
        while !event(&mut quick).await.contains(&format!("\"order:{number}\"")) {}
    }
    // At most one that was taken from the surveys already, and the last.
    let late = [event(&mut slow).await, event(&mut slow).await].concat();
    assert!(
        !late.contains("\"order:20\"") && !late.contains("\"order:40\""),
        "surveys were kept for it"
    );
}

fn release(csrf: &str) -> http::request::Builder {
    request(Method::POST, "/api/release")
        .header(header::CONTENT_TYPE, "application/json")
        .header("x-csrf-token", csrf)
}

fn with(builder: http::request::Builder, name: &str, typed: &str) -> Request<Body> {
    builder.body(Body::from(json!({ "name": name, "typed": typed }).to_string())).unwrap()
}

#[tokio::test]
async fn a_release_needs_permission_token_origin_and_name() {
    let store = MemoryStore::new();
    let client = || LockClient::builder().namespace("shop").memory(store.peer()).unwrap();
    let holder = client();
    let _held = holder.mutex("order:1").lock().await.unwrap();
    let name = "shop:order:1";
    let csrf = async |app: &Router| {
        json_of(get(app, "/api/session").await).await["csrf"].as_str().unwrap().to_owned()
    };
    let held = async || holder.admin().inspect("order:1").await.unwrap().kind.is_some();

    let reads = router(client(), ConsoleOptions::new());
    let own = csrf(&reads).await;
    let answer = send(&reads, with(release(&own), name, name)).await;
    assert_eq!(answer.status(), StatusCode::FORBIDDEN, "without permission");

    let app = router(client(), ConsoleOptions::new().allow_release(true));
    let own = csrf(&app).await;
    for (what, request, status) in [
        ("no token", with(release(""), name, name), StatusCode::FORBIDDEN),
        ("another token", with(release(&csrf(&reads).await), name, name), StatusCode::FORBIDDEN),
        (
            "another origin",
            with(release(&own).header("origin", "https://evil.test"), name, name),
            StatusCode::FORBIDDEN,
        ),
        (
            "another site",
            with(release(&own).header("sec-fetch-site", "cross-site"), name, name),
            StatusCode::FORBIDDEN,
        ),
        (
            "another name",
            with(release(&own), name, "shop:order:2"),
            StatusCode::UNPROCESSABLE_ENTITY,
        ),
        ("another namespace", with(release(&own), "order:1", "order:1"), StatusCode::CONFLICT),
        ("a free lock", with(release(&own), "shop:free", "shop:free"), StatusCode::CONFLICT),
    ] {
        let answer = send(&app, request).await;
        assert_eq!(answer.status(), status, "{what}");
        assert!(
            json_of(answer).await["error"].as_str().is_some_and(|error| error.len() > 10),
            "{what}"
        );
        assert!(held().await, "{what}: released");
    }
    // What cannot be read is an error like all others.
    for (kind, text, status) in [
        ("application/json", "{", StatusCode::BAD_REQUEST),
        ("application/json", "{\"name\":\"shop:order:1\"}", StatusCode::UNPROCESSABLE_ENTITY),
        ("text/plain", "{}", StatusCode::UNSUPPORTED_MEDIA_TYPE),
    ] {
        let request = request(Method::POST, "/api/release").header("x-csrf-token", &own);
        let request = request.header(header::CONTENT_TYPE, kind).body(Body::from(text)).unwrap();
        let answer = send(&app, request).await;
        assert_eq!(answer.status(), status, "{text}");
        assert!(json_of(answer).await["error"].is_string(), "{text}");
    }
    assert!(held().await);
    let own_page = release(&own).header("origin", "http://console.test");
    let own_page = own_page.header("sec-fetch-site", "same-origin");
    let answer = send(&app, with(own_page, name, name)).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert!(!held().await);
}

/// The console's own page is known behind a proxy that names another host, and over HTTP/2, which has no such header.
#[tokio::test]
async fn its_own_page_is_known_behind_a_proxy() {
    let client = LockClient::in_memory();
    let app = router(client.clone(), ConsoleOptions::new().allow_release(true));
    let session = json_of(get(&app, "/api/session").await).await;
    let own = session["csrf"].as_str().unwrap();
    let proxied = release(own).header("origin", "https://locks.example.org");
    let proxied = proxied.header("sec-fetch-site", "same-origin");
    let http_2 = |origin: &str| {
        let request = Request::post("https://locks.example.org/api/release");
        let request = request.header(header::CONTENT_TYPE, "application/json");
        request.header("x-csrf-token", own).header("origin", origin)
    };
    for (request, status) in [
        (proxied, StatusCode::OK),
        (http_2("https://locks.example.org"), StatusCode::OK),
        (http_2("https://evil.test"), StatusCode::FORBIDDEN),
    ] {
        let held = client.mutex("order:1").lock().await.unwrap();
        let answer = send(&app, with(request, "order:1", "order:1")).await;
        assert_eq!(answer.status(), status);
        drop(held);
    }
}

/// A console that is told its hosts answers for no other, whatever is asked.
#[tokio::test]
async fn other_hosts_are_refused() {
    let options = ConsoleOptions::new().hosts(["localhost", "[::1]"]).bearer_token("sesame");
    let app = router(LockClient::in_memory(), options);
    let ask = async |uri: &str, host: Option<&str>| {
        let mut request =
            Request::builder().uri(uri).header(header::AUTHORIZATION, "Bearer sesame");
        if let Some(host) = host {
            request = request.header(header::HOST, host);
        }
        send(&app, request.body(Body::empty()).unwrap()).await.status()
    };
    for path in ["/", "/console.js", "/api/session"] {
        for host in ["localhost", "localhost:7379", "LocalHost.", "[::1]", "[::1]:7379"] {
            assert_eq!(ask(path, Some(host)).await, StatusCode::OK, "{host} {path}");
        }
        for host in
            ["console.test", "localhost.evil.test", "evil.test:7379", "", "[::2]:7379", "::1"]
        {
            assert_eq!(ask(path, Some(host)).await, StatusCode::FORBIDDEN, "{host} {path}");
        }
        assert_eq!(ask(path, None).await, StatusCode::FORBIDDEN, "no host");
    }
    assert_eq!(ask("http://localhost/api/session", None).await, StatusCode::OK, "HTTP/2");
    assert_eq!(ask("http://evil.test/api/session", None).await, StatusCode::FORBIDDEN, "HTTP/2");
    let login = Request::post("/login").header(header::HOST, "evil.test").body(Body::empty());
    assert_eq!(send(&app, login.unwrap()).await.status(), StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn the_token_lets_in() {
    let options = ConsoleOptions::new().bearer_token("open sesame");
    assert!(!format!("{options:?}").contains("sesame"));
    let app = router(LockClient::in_memory(), options);
    for path in ["/", "/console.js", "/api/survey", "/api/events", "/api/session"] {
        assert_eq!(get(&app, path).await.status(), StatusCode::UNAUTHORIZED, "{path}");
    }
    let page = body(get(&app, "/").await).await;
    assert!(page.contains("action=\"./login\""), "{page}");
    let bearer = |token: &str| {
        request(Method::GET, "/api/session")
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
    };
    for (token, status) in [
        ("open sesame", StatusCode::OK),
        ("open", StatusCode::UNAUTHORIZED),
        ("", StatusCode::UNAUTHORIZED),
    ] {
        let answer = send(&app, bearer(token).body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status(), status, "{token:?}");
    }
    let login = |token: &str| {
        let form = request(Method::POST, "/login")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        form.body(Body::from(format!("token={token}"))).unwrap()
    };
    assert_eq!(send(&app, login("wrong")).await.status(), StatusCode::UNAUTHORIZED);
    let answer = send(&app, login("open+sesame")).await;
    assert_eq!(answer.status(), StatusCode::SEE_OTHER);
    let cookie = answer.headers()[header::SET_COOKIE].to_str().unwrap().to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains("sesame"), "the token itself");
    assert_eq!(answer.headers()[header::LOCATION], "./");
    let nested = Router::new().nest("/admin/locks", app.clone());
    let form = request(Method::POST, "/admin/locks/login")
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(Body::from("token=open+sesame"));
    let answer = send(&nested, form.unwrap()).await;
    assert_eq!(answer.headers()[header::LOCATION], "../locks", "relative to the form");
    let cookie = cookie.split(';').next().unwrap();
    let with_cookie =
        request(Method::GET, "/").header(header::COOKIE, cookie).body(Body::empty()).unwrap();
    assert_eq!(send(&app, with_cookie).await.status(), StatusCode::OK);
}

/// An empty token is none that a viewer can give: it admits no viewer, least of all to release locks.
#[tokio::test]
async fn an_empty_token_lets_nobody_in() {
    for token in ["", " "] {
        let options = ConsoleOptions::new().bearer_token(token).allow_release(true);
        let app = router(LockClient::in_memory(), options);
        for given in ["Bearer ", "Bearer", "Bearer  ", ""] {
            let asked = request(Method::GET, "/api/session").header(header::AUTHORIZATION, given);
            let answer = send(&app, asked.body(Body::empty()).unwrap()).await;
            assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{token:?} {given:?}");
        }
        let form = format!("token={}", token.replace(' ', "+"));
        let login = request(Method::POST, "/login")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        let answer = send(&app, login.body(Body::from(form)).unwrap()).await;
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{token:?}");
    }
}

/// The name of a scheme has no case (RFC 9110, section 11.1), and may be followed by several spaces.
#[tokio::test]
async fn the_case_of_a_scheme_does_not_matter() {
    let options = ConsoleOptions::new().bearer_token("sesame");
    let app = router(LockClient::in_memory(), options);
    for (given, status) in [
        ("Bearer sesame", StatusCode::OK),
        ("bearer sesame", StatusCode::OK),
        ("BEARER  sesame", StatusCode::OK),
        ("bearer Sesame", StatusCode::UNAUTHORIZED),
        ("bearersesame", StatusCode::UNAUTHORIZED),
        ("basic sesame", StatusCode::UNAUTHORIZED),
    ] {
        let asked = request(Method::GET, "/api/session").header(header::AUTHORIZATION, given);
        let answer = send(&app, asked.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status(), status, "{given:?}");
    }
}

/// Among very many keys of other programs an open page takes a small part of the server's time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_takes_a_small_part_of_a_server() {
    let server = RedisServer::start().await;
    server.client().cmd(&["DEBUG", "POPULATE", "400000"]).await;
    let client = LockClient::connect(&server.url()).await.unwrap();
    let _held = client.mutex("order:1").lock().await.unwrap();
    let app = router(client, ConsoleOptions::new());
    let mut viewer = get(&app, "/api/events").await.into_body().into_data_stream();
    event(&mut viewer).await;
    server.reset_stats().await;
    const SURVEYS: u64 = 3;
    for _ in 0..SURVEYS {
        let shown = event(&mut viewer).await;
        assert!(shown.contains("order:1") && shown.contains("\"is_complete\":false"), "{shown}");
    }
    let scans = server.command_calls().await.get("scan").copied().unwrap_or(0);
    assert!(scans <= 200 * (SURVEYS + 1), "{scans} calls of SCAN for {SURVEYS} surveys");
}

/// Nor among very many hashes of other programs, each of which has to be checked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_survey_checks_a_bounded_number_of_keys() {
    let server = RedisServer::start().await;
    let fill = "for at = 1, 20000 do redis.call('HSET', 'user:' .. at, 'name', 'Ada') end";
    server.client().cmd(&["EVAL", fill, "0"]).await;
    let client = LockClient::connect(&server.url()).await.unwrap();
    let checks = async |checks: usize| {
        server.reset_stats().await;
        let survey =
            bound_survey(client.admin().survey().within(SOON), usize::MAX, checks).await.unwrap();
        assert!(survey.is_cut && !survey.is_complete, "{survey:?}");
        let calls = server.command_calls().await;
        calls.get("evalsha").copied().unwrap_or(0) + calls.get("eval").copied().unwrap_or(0)
    };
    // The page that passes the bound is checked to its end.
    let (few, page) = (checks(1_000).await, checks(1).await);
    assert!((1..1_000).contains(&page), "{page} checks of one page");
    assert!((1_000..3_000).contains(&few), "{few} checks");

    let app = router(client.clone(), ConsoleOptions::new());
    let mut viewer = get(&app, "/api/events").await.into_body().into_data_stream();
    event(&mut viewer).await;
    server.reset_stats().await;
    for _ in 0..3 {
        let shown = event(&mut viewer).await;
        assert!(shown.contains("\"is_cut\":true"), "{shown}");
    }
    let calls = server.command_calls().await.get("evalsha").copied().unwrap_or(0);
    // Of three surveys, and of one that has begun meanwhile.
    assert!(calls <= 4 * 6_000, "{calls} checks");
}
