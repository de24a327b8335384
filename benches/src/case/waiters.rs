//! Many tasks that wait for one lock: what they keep in memory, and how fast all of them get it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_runtime::{LockClient, Mutex};
use lock_tests::RedisServer;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, timeout};

use crate::Result;
use crate::record::{Record, Target, Unit};
use crate::timing::Timing;
use crate::usage::{commands, resident_bytes};

const WAITERS: [usize; 4] = [10, 100, 1_000, 10_000];

/// How long the tasks may take to queue, and to get the lock.
const BOUND: Duration = Duration::from_secs(60);

/// Measures the case.
pub(super) async fn run(server: &RedisServer, timing: Timing) -> Result<Vec<Record>> {
    let client = LockClient::connect(&server.url()).await?;
    let mut records = Vec::new();
    for waiters in WAITERS {
        let case = format!("waiters: {waiters} tasks wait for one lock, which is then released");
        let (mut calls, mut grants, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..timing.rounds {
            let (time, commands, memory) = turn(server, client.mutex("waited"), waiters).await?;
            calls.push(commands / waiters as f64);
            grants.push(waiters as f64 / time.as_secs_f64());
            bytes.extend(memory.map(|bytes| bytes / waiters as f64));
        }
        let plain = |name, unit, samples| Record::new(&case, "ours", name, unit, samples);
        let calls = plain("commands per grant", Unit::Plain, calls);
        // The hold before theirs and its release are a few commands, whose part in fewer grants is large.
        let is_large = waiters >= 1_000;
        records.push(if is_large { calls.target(Target::AtMost(0.1)) } else { calls });
        records.push(plain("grants", Unit::PerSecond, grants));
        // Smaller numbers fit in memory that is there already, and so do all rounds but the first.
        if let (10_000, Some(first)) = (waiters, bytes.first()) {
            records.push(plain("bytes per waiter and its task", Unit::Plain, vec![*first]));
        }
    }
    client.shutdown(Duration::from_secs(1)).await;
    Ok(records)
}

/// Returns the time from the release until the last task has released it again, the commands meanwhile, and the bytes of all
/// waiters.
async fn turn(
    server: &RedisServer,
    lock: Mutex,
    waiters: usize,
) -> Result<(Duration, f64, Option<f64>)> {
    let guard = lock.lock().await?;
    let memory = resident_bytes();
    let polled = Arc::<AtomicUsize>::default();
    let mut tasks = JoinSet::new();
    for _ in 0..waiters {
        let (lock, polled) = (lock.clone(), Arc::clone(&polled));
        tasks.spawn(async move {
            polled.fetch_add(1, Ordering::Relaxed);
            // Its first poll is part of this one.
            lock.lock().await?.release().await
        });
    }
    let queued = async {
        while polled.load(Ordering::Relaxed) < waiters {
            yield_now().await;
        }
    };
    timeout(BOUND, queued).await?;
    let bytes = resident_bytes().zip(memory).map(|(after, before)| after - before);
    let before = commands(server).await;
    let released = Instant::now();
    guard.release().await?;
    let all = async {
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        Result::Ok(())
    };
    timeout(BOUND, all).await??;
    let time = released.elapsed();
    Ok((time, commands(server).await - before, bytes))
}
