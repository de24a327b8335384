//! One call in several forms, without a server: the cost of each form beyond the first.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::Instant;

use crate::Result;
use crate::record::{Record, Target, Unit, median};

/// Calls that are timed together. Few, so that a disturbance hits all forms alike.
const BATCH: u32 = 200;

/// Nanoseconds of a call.
type Batch<'a> = Pin<Box<dyn Future<Output = Result<f64>> + Send + 'a>>;

/// One form of the call.
pub(super) struct Form<'a> {
    name: &'static str,
    batch: Box<dyn Fn(u32) -> Batch<'a> + Send + Sync + 'a>,
}

impl<'a> Form<'a> {
    pub(super) fn new<C, F>(name: &'static str, call: C) -> Self
    where
        C: Fn() -> F + Send + Sync + 'a,
        F: Future<Output = Result<()>> + Send + 'a,
    {
        let call = Arc::new(call);
        let batch = move |calls| -> Batch<'a> { Box::pin(batch(Arc::clone(&call), calls)) };
        Self { name, batch: Box::new(batch) }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Makes so many calls. Returns the nanoseconds of one.
    pub(super) async fn calls(&self, calls: u32) -> Result<f64> {
        (self.batch)(calls).await
    }
}

async fn batch<C, F>(call: Arc<C>, calls: u32) -> Result<f64>
where
    C: Fn() -> F,
    F: Future<Output = Result<()>>,
{
    let started = Instant::now();
    for _ in 0..calls {
        call().await?;
    }
    Ok(started.elapsed().as_nanos() as f64 / f64::from(calls))
}

/// The median batch of each form; they take turns.
pub(super) async fn round(forms: &[Form<'_>], turn: Duration) -> Result<Round> {
    let mut batches = vec![Vec::new(); forms.len()];
    let end = Instant::now() + turn;
    while batches.iter().any(Vec::is_empty) || Instant::now() < end {
        for (form, batches) in forms.iter().zip(&mut batches) {
            batches.push(form.calls(BATCH).await?);
        }
        yield_now().await;
    }
    Ok(forms.iter().zip(&batches).map(|(form, batches)| (form.name, median(batches))).collect())
}

/// Each form with its nanoseconds.
pub(super) type Round = Vec<(&'static str, f64)>;

/// Records of rounds of the same forms, of which each but the first may take `most` nanoseconds more than it.
pub(super) fn records(case: &str, rounds: &[Round], most: f64) -> Vec<Record> {
    let samples = |form: usize| rounds.iter().map(move |round| round[form].1);
    let Some(forms) = rounds.first() else { return Vec::new() };
    let mut records = Vec::new();
    let floor: Vec<f64> = samples(0).collect();
    for (form, (name, _)) in forms.iter().enumerate() {
        let record = Record::new(case, name, "call", Unit::Nanos, samples(form).collect());
        records.push(record.over(&floor));
        if form > 0 {
            let beyond = samples(form).zip(&floor).map(|(ours, floor)| ours - floor).collect();
            let beyond = Record::new(case, name, "beyond the first", Unit::Nanos, beyond);
            records.push(beyond.target(Target::AtMost(most)));
        }
    }
    records
}
