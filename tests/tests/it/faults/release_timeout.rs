//! A call whose body has ended returns, however long its release takes (S-20): the server stands still, or is gone.

use std::convert::Infallible;

use lock_runtime::options::OnReleaseLost;
use tokio::task::spawn_blocking;
use tower::{ServiceBuilder, ServiceExt, service_fn};

use crate::prelude::*;

/// `release_timeout`, and what a busy machine may add. What waits for the store waits for seconds.
const AT_MOST: Duration = ms(900);

/// A timeout around the whole call.
const AROUND: Duration = secs(2);

/// The ways to run a body under a lock of that name.
const WAYS: [&str; 9] = [
    "run",
    "try_run",
    "run_write",
    "permit",
    "multi",
    "attribute",
    "layer",
    "run_blocking",
    "plain attribute",
];

/// Takes the server away and returns when it has.
type Body = BoxFuture<'static, Instant>;

#[distributed_lock(key = "attribute", client = client)]
async fn annotated(client: &LockClient, body: Body) -> Result<Instant, LockError> {
    Ok(body.await)
}

/// A body that takes the server away.
fn body(server: &Arc<RedisServer>, stop: fn(&RedisServer)) -> Body {
    let server = Arc::clone(server);
    let body = async move {
        stop(&server);
        Instant::now()
    };
    body.boxed()
}

/// The body of a plain function, which does not wait.
fn at_once(body: Body) -> Instant {
    body.now_or_never().expect("the body waits")
}

#[distributed_lock(key = "plain attribute", client = client)]
fn annotated_plain(client: &LockClient, body: Body) -> Result<Instant, LockError> {
    Ok(at_once(body))
}

/// Calls it on a thread that may block.
async fn on_a_thread(
    client: &LockClient,
    way: &'static str,
    body: Body,
) -> Result<Instant, LockError> {
    let client = client.clone();
    let called = spawn_blocking(move || match way {
        "plain attribute" => annotated_plain(&client, body),
        _ => client.mutex(way).run_blocking(|_| at_once(body)),
    });
    called.await.expect("the call panics")
}

async fn layered(client: &LockClient, body: Body) -> Result<Instant, LockError> {
    let key = |_: &Body| LockKey::new("layer").map(Some);
    let layer = lock_tower::LockLayer::new(client.clone(), key);
    let inner = service_fn(async |body: Body| Ok::<_, Infallible>(body.await));
    let ran = ServiceBuilder::new().layer(layer).service(inner).oneshot(body).await;
    Ok(ran.expect("the layer fails"))
}

async fn call(client: &LockClient, way: &'static str, body: Body) -> Result<Instant, LockError> {
    match way {
        "run" => client.mutex(way).run(body).await,
        "try_run" => client.fair_mutex(way).try_run(body.map(Ok::<_, LockError>)).await,
        "run_write" => client.rw_lock(way).run_write(body).await,
        "permit" => client.semaphore(way, 1).run(body).await,
        "multi" => client.multi_lock([way, "another"]).run(body).await,
        "attribute" => annotated(client, body).await,
        "run_blocking" | "plain attribute" => on_a_thread(client, way, body).await,
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
        let ran = timeout(AROUND, call(&client, way, body(&server, stop))).await;
        let ended = ran.unwrap_or_else(|_| panic!("{way}: a success is timed out")).unwrap();
        assert!(ended.elapsed() < patience(AT_MOST), "{way}: returns after {:?}", ended.elapsed());
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
            let (body, options) =
                (body(&server, RedisServer::pause), LockOptions::new().release_timeout(limit));
            let ended = match way {
                "run" => client.mutex("m").with(options).run(body).await,
                "computed" => computed(&client, limit, body).await,
                _ => literal(&client, body).await,
            };
            let took = ended.unwrap().elapsed();
            let in_time = took >= least && took < patience(limit + AT_MOST);
            assert!(in_time, "{way}, {limit:?}: {took:?}");
            server.resume();
            soon!("it is released", !server.client().exists("m").await);
        }
    }
}

/// The body has ended and the call waits for its release; then the caller drops it, and the releaser goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_dropped_during_its_release() {
    let server = Arc::new(RedisServer::start().await);
    let client = connect(&*server).await;
    for way in ["run", "computed"] {
        let has_run = Arc::<AtomicBool>::default();
        let told = Arc::clone(&has_run);
        let body = body(&server, RedisServer::pause);
        let body = body.inspect(move |_| told.store(true, Ordering::SeqCst)).boxed();
        let long = LockOptions::new().release_timeout(secs(60));
        let call = match way {
            "run" => client.mutex("m").with(long).run(body).boxed(),
            _ => computed(&client, secs(60), body).boxed(),
        };
        assert!(timeout(ms(300), call).await.is_err(), "{way}: it does not wait for its release");
        assert!(has_run.load(Ordering::SeqCst), "{way}: the body has not run");
        server.resume();
        soon!(&format!("{way} is released"), !server.client().exists("m").await);
    }
    assert!(client.shutdown(SOON).await.is_clean());
}
