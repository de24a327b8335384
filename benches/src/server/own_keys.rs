//! Many tasks, each with a lock of its own, over one connection: on the runtime of all cases, on four worker threads,
//! and on one thread.

use std::time::Duration;

use lock_runtime::LockClient;
use tokio::runtime::{Builder, Runtime};
use tokio::task::spawn_blocking;

use crate::Result;
use crate::record::{Record, Target, Unit};
use crate::server::bench::Bench;
use crate::server::contender::{Bare, Contender, Ours};
use crate::server::drive::apart;
use crate::server::turns::{Turn, beside, turns};
use crate::timing::Timing;

const CASE: &str = "own-keys: 64 tasks, each takes a lock of its own and gives it back";
const CROWD: &str = "own-keys, 1000 tasks on 4 worker threads; the floor is 64 tasks there";
const ALONE: &str = "own-keys, 64 tasks on a current-thread runtime";
const TASKS: usize = 64;
const MANY: usize = 1_000;

/// Measures the case.
pub(super) async fn run(bench: &Bench) -> Result<Vec<Record>> {
    let turn = bench.timing.turn;
    let mut rates = [(); 3].map(|()| Vec::new());
    for round in 0..bench.timing.rounds {
        for next in turns(round) {
            rates[next as usize].push(match next {
                Turn::Floor => rate(|name| bench.bare(name), TASKS, turn).await?,
                Turn::Ours => rate(|name| bench.ours(name), TASKS, turn).await?,
                Turn::Peer => rate(|name| bench.peer(name), TASKS, turn).await?,
            });
        }
    }
    let mut records =
        Vec::from(beside(CASE, "pairs", Unit::PerSecond, rates, Some(Target::AtLeast(1.5))));
    let (url, timing) = (bench.server.url(), bench.timing);
    let four = Builder::new_multi_thread().worker_threads(4).enable_all().build()?;
    let [few, many] = on(four, crowds(url.clone(), timing)).await?;
    let pairs = |case, name, rates| Record::new(case, name, "pairs", Unit::PerSecond, rates);
    records.push(pairs(CROWD, Ours::NAME, many).over(&few).target(Target::AtLeast(0.95)));
    let one = Builder::new_current_thread().enable_all().build()?;
    let [floor, ours] = on(one, with_floor(url, timing)).await?;
    let ours = pairs(ALONE, Ours::NAME, ours).over(&floor).target(Target::AtLeast(1.0));
    records.extend([pairs(ALONE, Bare::NAME, floor), ours]);
    Ok(records)
}

/// Runs a measurement on a runtime of its own, with connections of its own.
async fn on<T, F>(runtime: Runtime, measurement: F) -> Result<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    spawn_blocking(move || {
        let measured = runtime.block_on(measurement);
        runtime.shutdown_background();
        measured
    })
    .await?
}

/// Pairs per second of few tasks, and of many.
async fn crowds(url: String, timing: Timing) -> Result<[Vec<f64>; 2]> {
    let client = LockClient::connect(&url).await?;
    let ours = |name: &str| Ours::new(client.mutex(format!("crowd:{name}")));
    rate(ours, MANY, timing.turn / 4).await?;
    let mut rates = [(); 2].map(|()| Vec::new());
    for round in 0..timing.rounds {
        for turn in [round % 2, 1 - round % 2] {
            rates[turn].push(rate(ours, [TASKS, MANY][turn], timing.turn).await?);
        }
    }
    client.shutdown(Duration::from_secs(1)).await;
    Ok(rates)
}

/// Pairs per second of the floor, and of this library.
async fn with_floor(url: String, timing: Timing) -> Result<[Vec<f64>; 2]> {
    let (bare, client) = (Bare::connect(&url).await?, LockClient::connect(&url).await?);
    let ours = |name: &str| Ours::new(client.mutex(format!("alone:{name}")));
    let bare = |name: &str| bare.on(&format!("bare:alone:{name}"));
    rate(ours, TASKS, timing.turn / 4).await?;
    let mut rates = [(); 2].map(|()| Vec::new());
    for round in 0..timing.rounds {
        for turn in [round % 2, 1 - round % 2] {
            rates[turn].push(match turn {
                0 => rate(bare, TASKS, timing.turn).await?,
                _ => rate(ours, TASKS, timing.turn).await?,
            });
        }
    }
    client.shutdown(Duration::from_secs(1)).await;
    Ok(rates)
}

async fn rate<C: Contender>(lock: impl Fn(&str) -> C, tasks: usize, turn: Duration) -> Result<f64> {
    let locks = (0..tasks).map(|task| lock(&format!("own:{task}"))).collect();
    Ok(apart(locks, turn).await?.rate())
}
