//! Re-entry: a lock acquired by code that already runs under it.

use std::time::Duration;

use lock_runtime::{LockClient, Mutex};
use lock_tests::RedisServer;
use tokio::task::yield_now;
use tokio::time::Instant;

use crate::Result;
use crate::record::{Record, Target, Unit, median};
use crate::timing::Timing;
use crate::usage::commands;

const CASE: &str = "nested: one task takes a lock that encloses it, and gives it back";

/// Pairs that are timed together, without a yield to other tasks.
const BATCH: u32 = 1000;

/// Measures the case.
pub(super) async fn run(server: &RedisServer, timing: Timing) -> Result<Vec<Record>> {
    let client = LockClient::connect(&server.url()).await?;
    let (mut pairs, mut calls) = (Vec::new(), Vec::new());
    for _ in 0..timing.rounds {
        let before = commands(server).await;
        let batches = tokio::spawn(batches(client.mutex("nested"), timing.turn)).await??;
        let pairs_made = batches.len() as f64 * f64::from(BATCH);
        calls.push((commands(server).await - before) / pairs_made);
        pairs.push(median(&batches));
    }
    client.shutdown(Duration::from_secs(1)).await;
    Ok(vec![
        Record::new(CASE, "ours", "pair", Unit::Nanos, pairs).target(Target::AtMost(250.0)),
        Record::new(CASE, "ours", "commands per pair", Unit::Plain, calls),
    ])
}

/// Nanoseconds of a pair, averaged over each batch.
async fn batches(lock: Mutex, turn: Duration) -> Result<Vec<f64>> {
    let guard = lock.lock().await?;
    let batches = guard.run(async {
        let mut batches = Vec::new();
        let end = Instant::now() + turn;
        while batches.is_empty() || Instant::now() < end {
            let started = Instant::now();
            for _ in 0..BATCH {
                lock.lock().await?.release().await?;
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
