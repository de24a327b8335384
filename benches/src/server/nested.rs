//! Re-entry: a lock acquired by code that already runs under it.

use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::Instant;

use crate::Result;
use crate::record::{Record, Target, Unit, median};
use crate::server::bench::Bench;
use crate::server::contender::{Contender, Ours};

const CASE: &str = "nested: one task takes a lock that encloses it, and gives it back";

/// Pairs that are timed together, without a yield to other tasks.
const BATCH: u32 = 1000;

/// Measures the case.
pub(super) async fn run(bench: &Bench) -> Result<Vec<Record>> {
    let (mut pairs, mut commands) = (Vec::new(), Vec::new());
    for _ in 0..bench.timing.rounds {
        let before = bench.commands().await;
        let lock = bench.ours("nested");
        let batches = tokio::spawn(batches(lock, bench.timing.turn)).await??;
        let calls = bench.commands().await.all_since(&before);
        commands.push(calls as f64 / (batches.len() as f64 * f64::from(BATCH)));
        pairs.push(median(&batches));
    }
    Ok(vec![
        Record::new(CASE, Ours::NAME, "pair", Unit::Nanos, pairs).target(Target::AtMost(150.0)),
        Record::new(CASE, Ours::NAME, "commands per pair", Unit::Plain, commands),
    ])
}

/// The nanoseconds of a pair, as the median of batches.
pub(super) async fn pair(lock: Ours, turn: Duration) -> Result<f64> {
    Ok(median(&tokio::spawn(batches(lock, turn)).await??))
}

/// Nanoseconds of a pair, averaged over each batch.
async fn batches(mut lock: Ours, turn: Duration) -> Result<Vec<f64>> {
    let guard = lock.take().await?;
    let batches = guard.run(async {
        let mut batches = Vec::new();
        let end = Instant::now() + turn;
        while batches.is_empty() || Instant::now() < end {
            let started = Instant::now();
            for _ in 0..BATCH {
                lock.mutex().lock().await?.release().await?;
            }
            batches.push(started.elapsed().as_nanos() as f64 / f64::from(BATCH));
            yield_now().await;
        }
        Ok::<_, lock_runtime::LockError>(batches)
    });
    let batches = batches.await??;
    guard.release().await?;
    Ok(batches)
}
