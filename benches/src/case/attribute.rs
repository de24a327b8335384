//! An annotated function beside the same written by hand, without a server: in memory, where a lock
//! costs least, and as a re-entry, which does not even ask a store.

use std::time::Duration;

use lock_runtime::{LockClient, LockKey, distributed_lock};
use tokio::task::yield_now;
use tokio::time::Instant;

use crate::Result;
use crate::bench::Bench;
use crate::record::{Record, Target, Unit, median};

const OUTERMOST: &str = "attribute: an annotated function, in-memory store";
const NESTED: &str = "attribute: an annotated function inside of the same lock";

const ATTRIBUTE: &str = "attribute";
const BY_HAND: &str = "by hand";

/// Calls that are timed together. Few, so that both forms mostly have the same luck.
const BATCH: u32 = 200;

#[distributed_lock(key = "order:{id}")]
async fn annotated(id: u64) -> Result<u64> {
    Ok(id)
}

/// Harder to match than the attribute's manual has it: the client is at hand and not looked for.
async fn by_hand(client: &LockClient, id: u64) -> Result<u64> {
    let key = LockKey::builder().text("order:").part(&id).build()?;
    let guard = client.mutex(key).lock().await?;
    let result = guard.run(async move { Ok(id) }).await?;
    guard.release().await?;
    result
}

/// Nanoseconds of a call, by round.
#[derive(Default)]
struct Figures {
    annotated: Vec<f64>,
    by_hand: Vec<f64>,
}

/// Measures it.
pub(super) async fn run(bench: &Bench) -> Result<Vec<Record>> {
    let client = LockClient::in_memory();
    client.install();
    let (mut outermost, mut nested) = (Figures::default(), Figures::default());
    for _ in 0..bench.plan.rounds {
        let (outside, inside) = tokio::spawn(both(client.clone(), bench.plan.turn)).await??;
        outermost.add(outside);
        nested.add(inside);
    }
    Ok([outermost.records(OUTERMOST), nested.records(NESTED)].concat())
}

/// A round of each case.
async fn both(client: LockClient, turn: Duration) -> Result<((f64, f64), (f64, f64))> {
    let outside = round(&client, turn).await?;
    let guard = client.mutex("order:7").lock().await?;
    let inside = guard.run(round(&client, turn)).await??;
    guard.release().await?;
    Ok((outside, inside))
}

/// The median batch of each form; they take turns.
async fn round(client: &LockClient, turn: Duration) -> Result<(f64, f64)> {
    let (mut annotated_batches, mut by_hand_batches) = (Vec::new(), Vec::new());
    let end = Instant::now() + turn;
    while annotated_batches.is_empty() || Instant::now() < end {
        annotated_batches.push(batch(|| annotated(7)).await?);
        by_hand_batches.push(batch(|| by_hand(client, 7)).await?);
        yield_now().await;
    }
    Ok((median(&annotated_batches), median(&by_hand_batches)))
}

/// Nanoseconds of a call.
async fn batch<F: Future<Output = Result<u64>>>(call: impl Fn() -> F) -> Result<f64> {
    let started = Instant::now();
    for _ in 0..BATCH {
        call().await?;
    }
    Ok(started.elapsed().as_nanos() as f64 / f64::from(BATCH))
}

impl Figures {
    fn add(&mut self, (annotated, by_hand): (f64, f64)) {
        self.annotated.push(annotated);
        self.by_hand.push(by_hand);
    }

    fn records(self, case: &str) -> Vec<Record> {
        let Self { annotated, by_hand } = self;
        let beyond = annotated.iter().zip(&by_hand).map(|(a, b)| a - b).collect();
        vec![
            Record::new(case, BY_HAND, "call", Unit::Nanos, by_hand.clone()),
            Record::new(case, ATTRIBUTE, "call", Unit::Nanos, annotated).over(&by_hand),
            Record::new(case, ATTRIBUTE, "beyond the one by hand", Unit::Nanos, beyond)
                .target(Target::AtMost(1000.0)),
        ]
    }
}
