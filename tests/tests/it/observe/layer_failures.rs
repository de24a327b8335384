//! Every failure that a layer logs names the lock, the policy, and where the layer was made.

use http_body_util::Empty;
use http_body_util::combinators::UnsyncBoxBody;

use crate::observe::failures::assert_named;
use crate::observe::scenario::*;
use crate::tower::http::*;

const LIMIT: Duration = secs(7);

const NOT_ENFORCED: &str = "runs without the lock, which its policy does not enforce";

type Sent = UnsyncBoxBody<Bytes, Infallible>;

fn layer(client: &LockClient, policy: &str) -> HttpLockLayerBuilder {
    let layer = LockLayer::http().client(client.clone()).policy(policy);
    layer.key("order:{header.x-order}").max_body_hold(LIMIT)
}

fn request(order: Option<&str>) -> Request<()> {
    let request = Request::post("/");
    let request = match order {
        Some(order) => request.header("x-order", order),
        None => request,
    };
    request.body(()).unwrap()
}

/// An answer with a body that never ends.
async fn stream() -> Result<Response<Sent>, Infallible> {
    let frames = stream::pending::<Result<Frame<Bytes>, Infallible>>();
    Ok(Response::new(StreamBody::new(frames).boxed_unsync()))
}

async fn send(layer: &HttpLockLayer, order: Option<&str>) -> u16 {
    let service = layer
        .layer(service_fn(async |_| Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))));
    service.oneshot(request(order)).await.unwrap().status().as_u16()
}

/// The name in a refusal is the one that the store and its operator know: with the namespace.
#[tokio::test(start_paused = true)]
async fn refusals_name_the_whole_lock() {
    let log = Log::start();
    let client = builder().namespace("shop").in_memory().unwrap();
    let _held = client.mutex("order:7").lock().await.unwrap();
    let refusing = layer(&client, "checkout").wait(Wait::None).build().unwrap();
    assert_eq!(send(&refusing, Some("7")).await, 409);
    assert_named(&log, "request refused", "shop:order:7", "checkout");
}

/// Without a key there is no name, and the policy and the site are told all the same.
#[tokio::test(start_paused = true)]
async fn requests_without_a_key() {
    let log = Log::start();
    let client = builder().in_memory().unwrap();
    assert_eq!(send(&layer(&client, "checkout").build().unwrap(), None).await, 400);
    assert_named(&log, "request refused", "", "checkout");
    assert_eq!(send(&layer(&client, "trial").build().unwrap(), None).await, 200);
    assert_named(&log, NOT_ENFORCED, "", "trial");
}

/// A layer of which no plan can be made, because its policy has no key and its client comes later.
#[tokio::test(start_paused = true)]
async fn policies_that_a_layer_cannot_follow() {
    let log = Log::start();
    let client = builder().in_memory().unwrap();
    let trial = LockLayer::http().policy("trial").build().unwrap();
    let answered = client.clone().scope(async { send(&trial, None).await }).await;
    assert_eq!(answered, 200);
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
    assert_eq!(http.oneshot(request(Some("7"))).await.unwrap().status(), 200);
    assert_named(&log, "the call ended, but its release failed", "order:7", "checkout");
    drop(log);
    let log = Log::start();
    let name = |_: &Request<()>| LockKey::new("order:7").map(Some);
    let generic = LockLayer::new(client.clone(), name).layer(handler);
    assert_eq!(generic.oneshot(request(None)).await.unwrap().status(), 200);
    assert_named(&log, "the call ended, but its release failed", "order:7", "none");
}

/// A body whose time is over, and one whose client is shut down; their servers do not poll them.
#[tokio::test(start_paused = true)]
async fn bodies_that_are_cut_off() {
    let client = builder().in_memory().unwrap();
    let begun = async |order| -> LockBody<Sent> {
        let service = layer(&client, "checkout").build().unwrap().layer(service_fn(|_| stream()));
        let mut body = service.oneshot(request(Some(order))).await.unwrap().into_body();
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

/// An error of the store has no name, and the line has the whole one all the same.
#[tokio::test]
async fn refusals_for_a_store_that_is_away_name_the_whole_lock() {
    let log = Log::start();
    let server = RedisServer::start().await;
    let client = builder().namespace("shop").store_patience(ms(300)).connect(&server.url()).await;
    let refusing = layer(&client.unwrap(), "checkout").build().unwrap();
    server.kill();
    assert_eq!(send(&refusing, Some("7")).await, 503);
    assert_named(&log, "request refused", "shop:order:7", "checkout");
}
