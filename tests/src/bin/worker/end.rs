//! A process whose `main` ends with a lock that it has just let go.
//!
//! `end <redis url> <history directory> <multi | current> <what> <end>`. What it takes: `mutex`, `fair`, `read`,
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
//! Its log is on its stdout. In the history, each lock has the name of what is taken.

use std::any::Any;
use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lock_runtime::client::RestartGuard;
use lock_runtime::{LockClient, LockError, LockGuard, LockKey, MultiLock, distributed_lock};
use lock_tests::history::{Recorder, Share};
use lock_tests::witness::Witness;
use lock_tower::LockLayer;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tower::{ServiceBuilder, ServiceExt, service_fn};

use super::Failure;

/// Whatever holds locks until it is dropped.
type Held = Box<dyn Any + Send>;

pub(super) fn run(
    url: &str,
    history: &str,
    flavor: &str,
    what: &str,
    end: &str,
) -> Result<(), Failure> {
    tracing_subscriber::fmt().with_ansi(false).init();
    let recorder = Arc::new(Recorder::create(Path::new(history))?);
    let mut builder =
        if flavor == "multi" { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    let runtime = builder.enable_all().build()?;
    if end == "outside" {
        return outside(runtime, &recorder, url, what);
    }
    runtime.block_on(async {
        let client = client(url, what).await?;
        let held = take(&recorder, &client, what).await?;
        told_to_end()?;
        match end {
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
fn outside(runtime: Runtime, to: &Arc<Recorder>, url: &str, what: &str) -> Result<(), Failure> {
    let held = runtime.block_on(async { take(to, &client(url, what).await?, what).await })?;
    told_to_end()?;
    drop(runtime);
    drop(held);
    Ok(())
}

async fn client(url: &str, what: &str) -> Result<LockClient, LockError> {
    match what {
        "quorum" => Ok(LockClient::builder().connect_quorum([url], RestartGuard::Off).await?),
        _ => LockClient::connect(url).await,
    }
}

/// Everything is on its way by then, and a parent may have stopped the server.
fn told_to_end() -> Result<(), Failure> {
    println!("held");
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}

async fn take(to: &Arc<Recorder>, client: &LockClient, what: &str) -> Result<Vec<Held>, Failure> {
    let alone = || witness(to, 0, what, Share::Exclusive);
    let one: Held = match what {
        "mutex" | "quorum" => hold(alone(), client.mutex("k").lock()).await?,
        "fair" => hold(alone(), client.fair_mutex("k").lock()).await?,
        "read" => hold(witness(to, 0, what, Share::Readers), client.rw_lock("k").read()).await?,
        "write" => hold(alone(), client.rw_lock("k").write()).await?,
        "semaphore" => {
            let share = Share::Permits { count: 1, limit: 1 };
            let permit = client.semaphore("k", 1).acquire();
            hold(witness(to, 0, what, share), permit).await?
        }
        "multi" => hold(alone(), client.multi_lock(["{k}", "{k}:2"]).lock()).await?,
        "joint" => {
            let members = [client.mutex("k").into(), client.fair_mutex("k2").into()];
            hold(alone(), MultiLock::of(members).lock()).await?
        }
        "three" => {
            let mut all = Vec::new();
            for (task, name) in (0..).zip(["k", "k2", "k3"]) {
                let witness = witness(to, task, &format!("{what} {name}"), Share::Exclusive);
                all.push(hold(witness, client.mutex(name).lock()).await?);
            }
            return Ok(all);
        }
        "attribute" => {
            let (client, begun) = (client.clone(), Arc::new(Notify::new()));
            let witness = alone();
            begin(&begun, witness.call(annotated(client, Arc::clone(&begun), witness))).await
        }
        "layer" => {
            let begun = Arc::new(Notify::new());
            let witness = alone();
            let call = layered(client.clone(), Arc::clone(&begun), witness);
            begin(&begun, witness.call(call)).await
        }
        _ => return Err(format!("there is nothing called {what}").into()),
    };
    Ok(vec![one])
}

/// A task of this process in the history. It lives as long as the process, as what it holds may.
fn witness(to: &Arc<Recorder>, task: u64, object: &str, share: Share) -> &'static Witness {
    Box::leak(Box::new(Witness::new(to, task, object, share)))
}

/// The lock, with an effect under it.
async fn hold<G: Into<LockGuard>>(
    witness: &'static Witness,
    acquire: impl Future<Output = Result<G, LockError>>,
) -> Result<Held, LockError> {
    let mut held = witness.acquire(acquire).await?;
    held.effect();
    Ok(Box::new(held))
}

/// The call, once its body has begun.
async fn begin(begun: &Notify, call: impl Future<Output = ()> + Send + 'static) -> Held {
    let mut call = Box::pin(call);
    tokio::select! {
        () = &mut call => unreachable!("its body never ends"),
        () = begun.notified() => Box::new(call),
    }
}

/// What the body of a call does.
async fn body<T>(begun: &Notify, witness: &Witness) -> T {
    let mut inside = witness.is_inside();
    inside.effect();
    begun.notify_one();
    pending().await
}

#[distributed_lock(key = "k", client = client, on_busy = skip)]
async fn annotated(client: LockClient, begun: Arc<Notify>, witness: &'static Witness) {
    body(&begun, witness).await
}

async fn layered(client: LockClient, begun: Arc<Notify>, witness: &'static Witness) {
    let inner =
        service_fn(async |(): ()| body::<Result<(), std::io::Error>>(&begun, witness).await);
    let layer = LockLayer::new(client, |(): &()| LockKey::new("k").map(Some));
    let _ = ServiceBuilder::new().layer(layer).service(inner).oneshot(()).await;
}
