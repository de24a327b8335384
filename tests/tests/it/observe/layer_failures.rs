//! Every failure that a layer logs names the lock, the policy, and where the layer was made.

use http_body_util::Empty;
use http_body_util::combinators::UnsyncBoxBody;

use crate::observe::failures::assert_named;
use crate::observe::scenario::*;
use crate::tower::http::*;

const LIMIT: Duration = secs(7);

const NOT_ENFORCED: &str = "runs without the lock, which its policy does not enforce";

fn layer(client: &LockClient, policy: &str) -> HttpLockLayerBuilder {
    let layer = LockLayer::http().client(client.clone()).policy(policy);
    layer.key("order:{header.x-order}").max_body_hold(LIMIT)
}

fn request(order: &str) -> Request<()> {
    let request = Request::post("/");
    let request = if order.is_empty() { request } else { request.header("x-order", order) };
    request.body(()).unwrap()
}

async fn send(layer: &HttpLockLayer, order: &str) -> u16 {
    let done = service_fn(async |_| Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())));
    layer.layer(done).oneshot(request(order)).await.unwrap().status().as_u16()
}

/// The name in a refusal is the one that the store and its operator know: with the namespace. An error of the store has no
/// name, and the line has the whole one all the same.
#[tokio::test]
async fn refusals_name_the_whole_lock() {
    let log = Log::start();
    let server = RedisServer::start().await;
    let client = builder().namespace("shop").connect(&server.url()).await.unwrap();
    let held = client.mutex("order:7").lock().await.unwrap();
    let refusing = layer(&client, "checkout").wait(Wait::None).build().unwrap();
    assert_eq!(send(&refusing, "7").await, 409);
    held.release().await.unwrap();
    server.kill();
    assert_eq!(send(&refusing, "7").await, 503);
    assert_eq!(log.lines_with("request refused").len(), 2);
    assert_named(&log, "request refused", "shop:order:7", "checkout");
}

/// Without a key there is no name, and the policy and the site are told all the same; so they are of a layer of which no plan
/// can be made, because its policy has no key and its client comes later.
#[tokio::test(start_paused = true)]
async fn requests_without_a_key() {
    let client = builder().in_memory().unwrap();
    let log = Log::start();
    assert_eq!(send(&layer(&client, "checkout").build().unwrap(), "").await, 400);
    assert_named(&log, "request refused", "", "checkout");
    assert_eq!(send(&layer(&client, "trial").build().unwrap(), "").await, 200);
    assert_named(&log, NOT_ENFORCED, "", "trial");
    let log = Log::start();
    let (client, trial) = (builder().in_memory().unwrap(), LockLayer::http().policy("trial"));
    let trial = trial.build().unwrap();
    assert_eq!(client.scope(async { send(&trial, "").await }).await, 200);
    assert_named(&log, NOT_ENFORCED, "", "trial");
}

#[tokio::test(start_paused = true)]
async fn releases() {
    let client = builder().in_memory().unwrap();
    let freed = client.clone();
    let handler = service_fn(move |_: Request<()>| {
        let client = freed.clone();
        async move {
            assert!(client.admin().force_release("order:7").await.unwrap());
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        }
    });
    let log = Log::start();
    let http = layer(&client, "checkout").build().unwrap().layer(handler.clone());
    assert_eq!(http.oneshot(request("7")).await.unwrap().status(), 200);
    assert_named(&log, "the call ended, but its release failed", "order:7", "checkout");
    let log = Log::start();
    let name = |_: &Request<()>| LockKey::new("order:7").map(Some);
    let generic = LockLayer::new(client, name).layer(handler);
    assert_eq!(generic.oneshot(request("")).await.unwrap().status(), 200);
    assert_named(&log, "the call ended, but its release failed", "order:7", "none");
}

/// A body whose time is over, and one whose client is shut down; their servers do not poll them.
#[tokio::test(start_paused = true)]
async fn bodies_that_are_cut_off() {
    type Endless = UnsyncBoxBody<Bytes, Infallible>;
    let client = builder().in_memory().unwrap();
    let begun = async |order| -> LockBody<Endless> {
        let handler = service_fn(async |_| {
            let frames = stream::pending::<Result<Frame<Bytes>, Infallible>>();
            Ok::<_, Infallible>(Response::new(StreamBody::new(frames).boxed_unsync()))
        });
        let service = layer(&client, "checkout").build().unwrap().layer(handler);
        let mut body = service.oneshot(request(order)).await.unwrap().into_body();
        assert!(body.frame().now_or_never().is_none());
        body
    };
    let log = Log::start();
    let _slow = begun("7").await;
    sleep(2 * LIMIT).await;
    assert_named(&log, "its handler writes slowly", "order:7", "checkout");
    let _endless = begun("8").await;
    client.shutdown(secs(1)).await;
    assert_named(&log, "the grace is over", "order:8", "checkout");
}
