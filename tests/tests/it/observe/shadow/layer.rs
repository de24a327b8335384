//! Shadow mode (`enforce`) of the layer, beside a store that is no good.

use crate::observe::shadow::*;
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

/// Neither a call, nor an answer, nor a handler that lets go early waits for a store that hangs.
#[tokio::test]
async fn a_store_that_hangs() {
    let (seen, _here) = Kept::here();
    let server = Arc::new(RedisServer::start().await);
    let client = connect(&server.url()).await;
    let layer = LockLayer::http().client(client.clone()).policy("trial").build().unwrap();
    let app = Router::new()
        .route("/perhaps", post(perhaps))
        .route("/insists", post(insists))
        .route("/pauses", post(pauses))
        .route("/pauses/and/releases", post(pauses_and_releases))
        .route_layer(layer)
        .with_state(Arc::clone(&server));
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
    for (path, answer) in [("/pauses", ""), ("/pauses/and/releases", "Ok(())")] {
        until_held(&app).await;
        let (status, text, took) = send(&app, path).await;
        assert_eq!((status, text.as_str()), (200, answer));
        assert!(took < patience(A_LOOK * 4), "{path} took {took:?}");
        server.resume();
    }
    until_held(&app).await;
    soon!("nothing is left", seen.is_idle() && !server.client().exists("job:1").await);
    let holds = counted(&seen, "acquired");
    assert!(seen.is("lock_release_total", &[("outcome", "released")], holds), "{}", seen.text());
    assert!(client.shutdown(SOON).await.is_clean());
}
