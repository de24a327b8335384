//! S-19, S-20: however a request ends, its lock is free within one round trip, by one release.
//!
//! Between the layer and Redis lies a line with a latency; the key is watched past it.

use std::io;

use axum::BoxError;
use axum::error_handling::HandleErrorLayer;
use axum::response::{IntoResponse, Response};
use tower::ServiceBuilder;

use crate::tower::layers::connection::{self, Client, asks, frame};
use crate::tower::prelude::*;

/// How long bytes take, each way.
const LATENCY: Duration = ms(250);

/// One round trip. The key is gone when the release arrives, after half of it; what was sent only
/// after the answer to something else would arrive after one and a half. The other half is for a
/// machine that has more to do than this.
const BOUND: Duration = ms(500);

/// When the outer timeout ends a request. Its lock is taken by then.
const TIMEOUT: Duration = ms(1500);

/// What ends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Panic,
    /// An answer that says what is wrong.
    Refusal,
    /// An error of the service in the layer.
    Error,
    StreamError,
    Timeout,
    /// The client hangs up while the handler runs.
    HangUpBefore,
    /// The client hangs up amid the answer.
    HangUpAmid,
    /// The client wants no more of the answer. HTTP/2 keeps the connection.
    Reset,
}

impl Ending {
    /// Whether the answer has begun by then.
    fn is_amid(self) -> bool {
        matches!(self, Self::StreamError | Self::HangUpAmid | Self::Reset)
    }
}

const ENDINGS: [Ending; 8] = [
    Ending::Panic,
    Ending::Refusal,
    Ending::Error,
    Ending::StreamError,
    Ending::Timeout,
    Ending::HangUpBefore,
    Ending::HangUpAmid,
    Ending::Reset,
];

/// Where handler and test meet.
#[derive(Clone)]
struct Stage {
    ending: Ending,
    /// The test wants the handler, or its stream, to end.
    end: Arc<Notify>,
    act: watch::Sender<Act>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Act {
    Before,
    Running,
    Over(Instant),
}

/// What runs under the lock.
struct Running(watch::Sender<Act>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.send_replace(Act::Over(Instant::now()));
    }
}

async fn handler(State(stage): State<Stage>) -> Response {
    stage.act.send_replace(Act::Running);
    let running = Running(stage.act);
    if stage.ending.is_amid() {
        let rest = stream::once(async move {
            stage.end.notified().await;
            drop(running);
            Err(io::Error::other("as the test wants it"))
        });
        return Body::from_stream(stream::iter([Ok("begin")]).chain(rest)).into_response();
    }
    stage.end.notified().await;
    if stage.ending == Ending::Panic {
        // Without a report, which takes its time.
        std::panic::resume_unwind(Box::new("as the test wants it"));
    }
    StatusCode::IM_A_TEAPOT.into_response()
}

fn app(locks: &LockClient, stage: Stage) -> Router {
    // More than the round trip: the answer waits for the release.
    let lock = routed_layer(locks).wait(Wait::None).release_timeout(PROMPTLY);
    let ending = stage.ending;
    let fail = move |answer: Result<Response, Infallible>| match (answer, ending) {
        (_, Ending::Error) => Err(BoxError::from("as the test wants it")),
        (answer, _) => Ok(answer?),
    };
    let limit = if ending == Ending::Timeout { TIMEOUT } else { 4 * PROMPTLY };
    let layers = ServiceBuilder::new()
        .layer(HandleErrorLayer::new(async |_: BoxError| StatusCode::INTERNAL_SERVER_ERROR))
        .timeout(limit)
        .layer(lock.build().unwrap())
        .map_result(fail);
    Router::new().route("/orders/{id}", post(handler)).route_layer(layers).with_state(stage)
}

/// Has a request come to that end.
async fn ends_promptly(ending: Ending, version: u8) {
    let (server, what) = (RedisServer::start().await, format!("{ending:?}, HTTP/{version}"));
    let (redis, proxy) = (server.client(), Proxy::start(server.port()).await);
    let locks = connect(&proxy).await;
    // Loads the scripts.
    locks.mutex(ORDER).lock().await.unwrap().release().await.unwrap();
    proxy.delay(LATENCY);

    let stage = Stage { ending, end: Arc::default(), act: watch::Sender::new(Act::Before) };
    let mut act = stage.act.subscribe();
    let address = connection::serve(app(&locks, stage.clone())).await;
    let mut client = Client::connect(address, version).await;
    let (hang_up, mut body, mut kept) = (client.hang_up(), None, None);
    if ending.is_amid() {
        let mut begun = client.send(asks("/orders/42")).await.into_body();
        assert_eq!(frame(&mut begun).await.unwrap().unwrap(), "begin");
        body = Some(begun);
        kept = Some(client);
    } else {
        lock_tests::spawn(async move { client.try_send(asks("/orders/42")).await });
    }
    act.wait_for(|act| *act == Act::Running).await.unwrap();
    assert!(redis.exists(ORDER).await, "{what}: not held");
    server.reset_stats().await;

    let mut ended = Instant::now();
    match ending {
        Ending::Timeout => {}
        Ending::HangUpBefore | Ending::HangUpAmid => hang_up(),
        Ending::Reset => drop(body.take()),
        Ending::Panic | Ending::Refusal | Ending::Error | Ending::StreamError => {
            stage.end.notify_one();
        }
    }
    let over = timeout(PROMPTLY, act.wait_for(|act| matches!(act, Act::Over(_)))).await;
    if let (Ending::Timeout, Act::Over(at)) = (ending, *over.expect(&what).unwrap()) {
        ended = at;
    }
    soon!(&what, !redis.exists(ORDER).await);
    let took = ended.elapsed();
    assert!((LATENCY..BOUND).contains(&took), "{what}: the key was gone after {took:?}");
    // One script was sent since the counts were reset, and none is still to come.
    let left = locks.shutdown(PROMPTLY).await;
    assert!(left.is_clean(), "{what}: {left:?}");
    let calls = server.command_calls().await;
    let scripts = ["evalsha", "eval"].map(|name| calls.get(name).copied().unwrap_or(0));
    assert_eq!(scripts, [1, 0], "{what}: {calls:?}");
    drop((kept, body));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_release_is_sent_at_once_however_a_request_ends() {
    for version in [1, 2] {
        join_all(ENDINGS.map(|ending| ends_promptly(ending, version))).await;
    }
}
