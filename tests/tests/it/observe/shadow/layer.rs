//! Shadow mode (`enforce`) of the layer, beside a store that is no good.

use crate::observe::recorder::Kept;
use crate::observe::scenario::*;
use crate::observe::shadow::{A_LOOK, FIFTY_CALLS, NOTICED, connect, counted};
use crate::tower::http::*;

async fn perhaps(held: Option<HeldLock>) -> String {
    held.is_some().to_string()
}

async fn insists(held: HeldLock) -> String {
    held.token().to_string()
}

async fn pauses(State(server): State<Arc<RedisServer>>) {
    server.pause();
}

async fn pauses_and_releases(State(server): State<Arc<RedisServer>>, held: HeldLock) -> String {
    server.pause();
    format!("{:?}", held.release().await)
}

fn app(client: &LockClient, server: &Arc<RedisServer>) -> Router {
    let layer = LockLayer::http().client(client.clone()).policy("trial").build().unwrap();
    Router::new()
        .route("/perhaps", post(perhaps))
        .route("/insists", post(insists))
        .route("/pauses", post(pauses))
        .route("/pauses/and/releases", post(pauses_and_releases))
        .route_layer(layer)
        .with_state(Arc::clone(server))
}

/// The answer, and how long it took.
async fn send(app: &Router, path: &str) -> (u16, String, Duration) {
    let request = Request::post(path).header("x-job", "1").body(Body::empty()).unwrap();
    let start = Instant::now();
    let answer = app.clone().oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let took = start.elapsed();
    sleep(ms(1)).await;
    (status, String::from_utf8(body.to_vec()).unwrap(), took)
}

async fn until_held(app: &Router) {
    let held = async || send(app, "/perhaps").await.1 == "true";
    eventually(NOTICED, "the store is looked at again", held).await;
}

#[tokio::test]
async fn a_store_that_hangs() {
    let (seen, _here) = Kept::here();
    let server = Arc::new(RedisServer::start().await);
    let client = connect(&server.url()).await;
    let app = app(&client, &server);
    until_held(&app).await;
    server.pause();
    let mut all = Duration::ZERO;
    for _ in 0..50 {
        let (status, held, took) = send(&app, "/perhaps").await;
        assert_eq!((status, held.as_str()), (200, "false"));
        all += took;
    }
    assert!(all < FIFTY_CALLS, "fifty calls took {all:?}");
    assert_eq!((counted(&seen, "unanswered"), counted(&seen, "acquired")), (50, 1));
    // A handler that cannot do without refuses by itself, and is told what to take.
    let (status, text, _) = send(&app, "/insists").await;
    assert_eq!(status, 500);
    assert!(text.contains("take an `Option<HeldLock>`"), "{text}");
    server.resume();
    until_held(&app).await;
    assert_eq!(send(&app, "/insists").await.0, 200);
    soon!("nothing is left", seen.is_idle());
    assert!(client.shutdown(SOON).await.is_clean());
}

/// Neither an answer nor a handler that lets go early waits for a release that hangs.
#[tokio::test]
async fn a_release_that_hangs() {
    let (seen, _here) = Kept::here();
    let server = Arc::new(RedisServer::start().await);
    let client = connect(&server.url()).await;
    let app = app(&client, &server);
    for (path, answer) in [("/pauses", ""), ("/pauses/and/releases", "Ok(())")] {
        until_held(&app).await;
        let (status, text, took) = send(&app, path).await;
        assert_eq!((status, text.as_str()), (200, answer));
        assert!(took < patience(A_LOOK * 4), "{path} took {took:?}");
        server.resume();
    }
    until_held(&app).await;
    let free = async || seen.is_idle() && !server.client().exists("job:1").await;
    eventually(SOON, "nothing is left", free).await;
    let holds = counted(&seen, "acquired");
    assert!(seen.is("lock_release_total", &[("outcome", "released")], holds), "{}", seen.text());
}
