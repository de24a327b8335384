//! Many tasks that wait for one lock: what they keep in memory, and how fast all of them get it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, timeout};

use crate::Result;
use crate::record::{Record, Target, Unit};
use crate::server::bench::Bench;
use crate::server::contender::{Contender, Ours};
use crate::server::usage::resident_bytes;

const WAITERS: [usize; 4] = [10, 100, 1_000, 10_000];

/// How long the tasks may take to queue, and to get the lock.
const BOUND: Duration = Duration::from_secs(60);

/// Measures the case.
pub(super) async fn run(bench: &Bench) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for waiters in WAITERS {
        let case = format!("waiters: {waiters} tasks wait for one lock, which is then released");
        let (mut commands, mut grants, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..bench.timing.rounds {
            let turn = turn(bench, waiters).await?;
            commands.push(turn.commands / waiters as f64);
            grants.push(waiters as f64 / turn.time.as_secs_f64());
            bytes.extend(turn.bytes.map(|bytes| bytes / waiters as f64));
        }
        let plain = |name, unit, samples| Record::new(&case, Ours::NAME, name, unit, samples);
        let commands = plain("commands per grant", Unit::Plain, commands);
        // The hold before theirs and its release are a few commands, whose part in fewer grants is large.
        records.push(if waiters >= 1_000 {
            commands.target(Target::AtMost(0.1))
        } else {
            commands
        });
        records.push(plain("grants", Unit::PerSecond, grants));
        // Smaller numbers fit in memory that is there already, and so do all rounds but the first.
        if let (10_000, Some(first)) = (waiters, bytes.first()) {
            // A waiter alone is measured by the test `costs::crowded`.
            records.push(plain("bytes per waiter and its task", Unit::Plain, vec![*first]));
        }
    }
    Ok(records)
}

/// The result of one turn.
struct Turn {
    /// From the release until the last task has released it again.
    time: Duration,
    commands: f64,
    bytes: Option<f64>,
}

async fn turn(bench: &Bench, waiters: usize) -> Result<Turn> {
    let mut lock = bench.ours("waited");
    let guard = lock.take().await?;
    let memory = resident_bytes();
    let polled = Arc::<AtomicUsize>::default();
    let mut tasks = JoinSet::new();
    for _ in 0..waiters {
        let (mut lock, polled) = (lock.clone(), Arc::clone(&polled));
        tasks.spawn(async move {
            polled.fetch_add(1, Ordering::Relaxed);
            // Its first poll is part of this one.
            let guard = lock.take().await?;
            lock.give(guard).await
        });
    }
    let queued = async {
        while polled.load(Ordering::Relaxed) < waiters {
            yield_now().await;
        }
    };
    timeout(BOUND, queued).await?;
    let bytes = resident_bytes().zip(memory).map(|(after, before)| after - before);
    let commands = bench.commands().await;
    let released = Instant::now();
    lock.give(guard).await?;
    let all = async {
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        Result::Ok(())
    };
    timeout(BOUND, all).await??;
    let time = released.elapsed();
    let commands = bench.commands().await.all_since(&commands) as f64;
    Ok(Turn { time, commands, bytes })
}
