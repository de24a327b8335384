//! A call whose body has ended returns, however long its release takes (S-20): the server stands still, or is gone.

use std::convert::Infallible;

use lock_runtime::options::OnReleaseLost;
use tower::{ServiceBuilder, ServiceExt, service_fn};

use crate::prelude::*;

/// `release_timeout`, and what a busy machine may add. What waits for the store waits for seconds.
const AT_MOST: Duration = ms(900);

/// A timeout around the whole call.
const AROUND: Duration = secs(2);

/// The ways to run a body under a lock of that name.
const WAYS: [&str; 6] = ["run", "try_run", "run_write", "permit", "attribute", "layer"];

/// Takes the server away and returns when it has.
type Body = BoxFuture<'static, Instant>;

#[distributed_lock(key = "attribute", client = client)]
async fn annotated(client: &LockClient, body: Body) -> Result<Instant, LockError> {
    Ok(body.await)
}

async fn layered(client: &LockClient, body: Body) -> Result<Instant, LockError> {
    let key = |_: &Body| LockKey::new("layer").map(Some);
    let layer = lock_tower::LockLayer::new(client.clone(), key);
    let inner = service_fn(async |body: Body| Ok::<_, Infallible>(body.await));
    let ran = ServiceBuilder::new().layer(layer).service(inner).oneshot(body).await;
    Ok(ran.expect("the layer fails"))
}

async fn call(client: &LockClient, way: &str, body: Body) -> Result<Instant, LockError> {
    match way {
        "run" => client.mutex(way).run(body).await,
        "try_run" => client.fair_mutex(way).try_run(body.map(Ok::<_, LockError>)).await,
        "run_write" => client.rw_lock(way).run_write(body).await,
        "permit" => client.semaphore(way, 1).run(body).await,
        "attribute" => annotated(client, body).await,
        _ => layered(client, body).await,
    }
}

/// Each call returns its body's value soon after the body's end, and none is timed out or takes it for a loss.
async fn calls_return(stop: fn(&RedisServer), go_on: impl AsyncFn(&RedisServer)) {
    for way in WAYS {
        let server = Arc::new(RedisServer::start().await);
        // Nothing is known of a release without an answer: that is no loss.
        let options = LockOptions::new().on_release_lost(OnReleaseLost::Error);
        let client = LockClient::builder().options(options).connect(&server.url()).await.unwrap();
        let body = {
            let server = Arc::clone(&server);
            async move {
                stop(&server);
                Instant::now()
            }
        };
        let ran = timeout(AROUND, call(&client, way, body.boxed())).await;
        let ended = ran.unwrap_or_else(|_| panic!("{way}: a success is timed out")).unwrap();
        assert!(ended.elapsed() < AT_MOST, "{way}: returns after {:?}", ended.elapsed());
        go_on(&server).await;
        // Long before its lease of 30 s ends. The name of a semaphore keeps the number of its permits.
        let raw = server.client();
        let held = if way == "permit" { "{permit}:timeout" } else { way };
        soon!(&format!("{way} is released"), !raw.exists(held).await);
        assert!(client.shutdown(SOON).await.is_clean(), "{way}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_stands_still() {
    calls_return(RedisServer::pause, async |server| server.resume()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_is_gone() {
    calls_return(RedisServer::kill, async |server| server.restart().await).await;
}

#[distributed_lock(key = "m", client = client, release_timeout = limit)]
async fn computed(client: &LockClient, limit: Duration, body: Body) -> Result<Instant, LockError> {
    Ok(body.await)
}

#[distributed_lock(key = "m", client = client, release_timeout = "1s")]
async fn literal(client: &LockClient, body: Body) -> Result<Instant, LockError> {
    Ok(body.await)
}

/// Zero does not wait for the store, and a longer one waits as long as it says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bound_is_an_option() {
    let server = Arc::new(RedisServer::start().await);
    let client = connect(&*server).await;
    for (limit, least) in [(Duration::ZERO, Duration::ZERO), (secs(1), ms(990))] {
        let mut ways = vec!["run", "computed"];
        ways.extend((limit == secs(1)).then_some("literal"));
        for way in ways {
            let body = {
                let server = Arc::clone(&server);
                async move {
                    server.pause();
                    Instant::now()
                }
            };
            let ended = match way {
                "run" => client.mutex("m").release_timeout(limit).run(body).await,
                "computed" => computed(&client, limit, body.boxed()).await,
                _ => literal(&client, body.boxed()).await,
            };
            let took = ended.unwrap().elapsed();
            assert!(took >= least && took < limit + AT_MOST, "{way}, {limit:?}: {took:?}");
            server.resume();
            soon!("it is released", !server.client().exists("m").await);
        }
    }
}
