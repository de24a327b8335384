//! A process whose `main` ends with a lock that it has just let go.
//!
//! `end_worker <redis url> <multi | current> <what> <end>`. What it takes: `mutex`, `fair`, `read`,
//! `write`, `semaphore`, `multi`, `joint`, `quorum` or `three` mutexes, the first named `k`; or a call
//! under an `attribute` or a `layer`, which is dropped in its body. It answers `held`, waits for a
//! line, drops what it holds, and then ends as it was told to:
//!
//! - `plain`: at once,
//! - `shutdown`: after `client.shutdown` with a grace of five seconds,
//! - `short`: after `client.shutdown` with a grace of 200 ms,
//! - `tasks`: at once, with the guards in tasks that never end,
//! - `outside`: after its runtime, the guards last.
//!
//! Its log is on its stdout. It records no history: it acquires each lock once, and what counts is what its end leaves on the
//! server and how long that stays, which its test reads there.

use std::any::Any;
use std::future::pending;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use lock_runtime::quorum::Quorum;
use lock_runtime::{LockClient, LockError, LockKey, MultiLock, distributed_lock};
use lock_tower::LockLayer;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tower::{ServiceBuilder, ServiceExt, service_fn};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Whatever holds locks until it is dropped.
type Held = Box<dyn Any + Send>;

fn main() -> Result<(), Failure> {
    tracing_subscriber::fmt().with_ansi(false).init();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, flavor, what, end] = &args[..] else {
        return Err("usage: end_worker <redis url> <multi | current> <what> <end>".into());
    };
    let mut builder =
        if flavor == "multi" { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    let runtime = builder.enable_all().build()?;
    if end == "outside" {
        return outside(runtime, url, what);
    }
    runtime.block_on(async {
        let client = client(url, what).await?;
        let held = take(&client, what).await?;
        told_to_end()?;
        match end.as_str() {
            "plain" => drop(held),
            "tasks" => {
                for held in held {
                    tokio::spawn(async move {
                        let _held = held;
                        pending::<()>().await;
                    });
                }
            }
            "shutdown" => {
                drop(held);
                println!("{:?}", client.shutdown(Duration::from_secs(5)).await);
            }
            "short" => {
                drop(held);
                println!("{:?}", client.shutdown(Duration::from_millis(200)).await);
            }
            _ => return Err(format!("there is no end {end}").into()),
        }
        Ok(())
    })
}

/// A guard that outlives the runtime.
fn outside(runtime: Runtime, url: &str, what: &str) -> Result<(), Failure> {
    let held = runtime.block_on(async { take(&client(url, what).await?, what).await })?;
    told_to_end()?;
    drop(runtime);
    drop(held);
    Ok(())
}

async fn client(url: &str, what: &str) -> Result<LockClient, LockError> {
    match what {
        "quorum" => {
            Ok(Quorum::builder().without_restart_guard().connect([url]).await?.client().clone())
        }
        _ => LockClient::connect(url).await,
    }
}

/// Everything is on its way by then, and a parent may have stopped the server.
fn told_to_end() -> Result<(), Failure> {
    println!("held");
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}

async fn take(client: &LockClient, what: &str) -> Result<Vec<Held>, Failure> {
    let one: Held = match what {
        "mutex" | "quorum" => Box::new(client.mutex("k").lock().await?),
        "fair" => Box::new(client.fair_mutex("k").lock().await?),
        "read" => Box::new(client.rw_lock("k").read().await?),
        "write" => Box::new(client.rw_lock("k").write().await?),
        "semaphore" => Box::new(client.semaphore("k", NonZeroU32::MIN).acquire().await?),
        "multi" => Box::new(client.multi_lock(["{k}", "{k}:2"]).lock().await?),
        "joint" => {
            let members = [client.mutex("k").into(), client.fair_mutex("k2").into()];
            Box::new(MultiLock::of(members).lock().await?)
        }
        "three" => {
            let mut all: Vec<Held> = Vec::new();
            for name in ["k", "k2", "k3"] {
                all.push(Box::new(client.mutex(name).lock().await?));
            }
            return Ok(all);
        }
        "attribute" => {
            let (client, begun) = (client.clone(), Arc::new(Notify::new()));
            begin(&begun, annotated(client, Arc::clone(&begun))).await
        }
        "layer" => {
            let begun = Arc::new(Notify::new());
            begin(&begun, layered(client.clone(), Arc::clone(&begun))).await
        }
        _ => return Err(format!("there is nothing called {what}").into()),
    };
    Ok(vec![one])
}

/// The call, once its body has begun.
async fn begin(begun: &Notify, call: impl Future<Output = ()> + Send + 'static) -> Held {
    let mut call = Box::pin(call);
    tokio::select! {
        () = &mut call => unreachable!("its body never ends"),
        () = begun.notified() => Box::new(call),
    }
}

#[distributed_lock(key = "k", client = client, on_busy = skip)]
async fn annotated(client: LockClient, begun: Arc<Notify>) {
    begun.notify_one();
    pending().await
}

async fn layered(client: LockClient, begun: Arc<Notify>) {
    let inner = service_fn(move |(): ()| {
        begun.notify_one();
        pending::<Result<(), std::io::Error>>()
    });
    let layer = LockLayer::new(client, |(): &()| LockKey::new("k").map(Some));
    let _ = ServiceBuilder::new().layer(layer).service(inner).oneshot(()).await;
}
