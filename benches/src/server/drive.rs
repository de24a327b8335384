//! Runs contenders and counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::Result;
use crate::server::contender::Contender;

/// How long tasks may take to finish their current pair when a turn ends.
const DRAIN: Duration = Duration::from_secs(10);

/// Latencies of many repetitions.
pub(crate) struct Latencies {
    /// Nanoseconds, sorted; at least one.
    nanos: Vec<u64>,
}

impl Latencies {
    fn new(mut nanos: Vec<u64>) -> Self {
        nanos.sort_unstable();
        Self { nanos }
    }

    /// Returns a quantile, in µs.
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        let last = self.nanos.len().saturating_sub(1);
        let at = (last as f64 * part).round() as usize;
        self.nanos.get(at).map_or(f64::NAN, |nanos| *nanos as f64 / 1000.0)
    }

    /// Returns the mean, in µs.
    pub(crate) fn mean(&self) -> f64 {
        self.nanos.iter().sum::<u64>() as f64 / self.nanos.len() as f64 / 1000.0
    }
}

/// One task, on a worker thread, acquires and releases a lock, over and over.
pub(crate) async fn alone<C: Contender>(mut lock: C, time: Duration) -> Result<Latencies> {
    let task = tokio::spawn(async move {
        let mut nanos = Vec::with_capacity(1 << 16);
        let mut before = Instant::now();
        let end = before + time;
        while before < end {
            let hold = lock.take().await?;
            lock.give(hold).await?;
            let after = Instant::now();
            nanos.push(u64::try_from((after - before).as_nanos())?);
            before = after;
        }
        Ok(Latencies::new(nanos))
    });
    task.await?
}

/// The result of several tasks in one turn.
pub(crate) struct Crowd {
    /// Grants of each task.
    pub(crate) per_task: Vec<u64>,
    /// Their time.
    pub(crate) elapsed: Duration,
    /// All grants, including those after the end of the turn.
    pub(crate) with_drain: u64,
}

impl Crowd {
    /// Grants of all tasks per second.
    pub(crate) fn rate(&self) -> f64 {
        self.per_second(self.per_task.iter().sum())
    }

    /// Grants per second of the task with the fewest, and of the task with the most.
    pub(crate) fn extremes(&self) -> (f64, f64) {
        let extreme = |task: Option<&u64>| self.per_second(task.copied().unwrap_or_default());
        (extreme(self.per_task.iter().min()), extreme(self.per_task.iter().max()))
    }

    fn per_second(&self, grants: u64) -> f64 {
        grants as f64 / self.elapsed.as_secs_f64()
    }
}

/// A counter that other threads read, on a cache line of its own.
#[repr(align(128))]
#[derive(Default)]
struct Tally(AtomicU64);

/// Counts grants without atomics, by a read and a write, as only code under a lock may. Two holders at
/// once lose counts.
#[derive(Default)]
struct Unguarded(AtomicU64);

impl Unguarded {
    fn add_one(&self) {
        let count = self.0.load(Ordering::Relaxed);
        self.0.store(count + 1, Ordering::Relaxed);
    }
}

/// State that the tasks of a crowd share.
struct Arena {
    start: Barrier,
    over: AtomicBool,
    tallies: Box<[Tally]>,
    counter: Unguarded,
}

/// One task per lock, all at once: each acquires and releases its lock, over and over.
pub(crate) async fn apart<C: Contender>(locks: Vec<C>, time: Duration) -> Result<Crowd> {
    let arena = Arena::new(locks.len());
    arena.run(locks, time, |_| {}).await
}

/// Several tasks acquire and release the same lock, over and over.
///
/// # Errors
///
/// If two of them held it at once, or one never got it.
pub(crate) async fn contend<C: Contender>(lock: C, tasks: usize, time: Duration) -> Result<Crowd> {
    let arena = Arena::new(tasks);
    let crowd = arena.run(vec![lock; tasks], time, Unguarded::add_one).await?;
    let counted = arena.counter.0.load(Ordering::Relaxed);
    if counted != crowd.with_drain {
        let grants = crowd.with_drain;
        return Err(format!("{}: {grants} grants, but {counted} were alone", C::NAME).into());
    }
    Ok(crowd)
}

impl Arena {
    fn new(tasks: usize) -> Arc<Self> {
        Arc::new(Self {
            start: Barrier::new(tasks + 1),
            over: AtomicBool::new(false),
            tallies: (0..tasks).map(|_| Tally::default()).collect(),
            counter: Unguarded::default(),
        })
    }

    async fn run<C: Contender>(
        self: &Arc<Self>,
        locks: Vec<C>,
        time: Duration,
        body: fn(&Unguarded),
    ) -> Result<Crowd> {
        let mut tasks = JoinSet::new();
        for (number, lock) in locks.into_iter().enumerate() {
            tasks.spawn(Arc::clone(self).work(number, lock, body));
        }
        self.start.wait().await;
        let started = Instant::now();
        sleep(time).await;
        let (elapsed, per_task) = (started.elapsed(), self.tally());
        self.over.store(true, Ordering::Relaxed);
        match timeout(DRAIN, drained(&mut tasks)).await {
            Ok(result) => result?,
            Err(_) => {
                let (name, left) = (C::NAME, tasks.len());
                return Err(format!("{name}: {left} tasks wait for a lock that is free").into());
            }
        }
        Ok(Crowd { per_task, elapsed, with_drain: self.tally().iter().sum() })
    }

    async fn work<C: Contender>(
        self: Arc<Self>,
        number: usize,
        mut lock: C,
        body: fn(&Unguarded),
    ) -> Result<()> {
        self.start.wait().await;
        while !self.over.load(Ordering::Relaxed) {
            let hold = lock.take().await?;
            body(&self.counter);
            self.tallies[number].0.fetch_add(1, Ordering::Relaxed);
            lock.give(hold).await?;
        }
        Ok(())
    }

    fn tally(&self) -> Vec<u64> {
        self.tallies.iter().map(|tally| tally.0.load(Ordering::Relaxed)).collect()
    }
}

/// Waits until all tasks have ended, or returns the first failure.
async fn drained(tasks: &mut JoinSet<Result<()>>) -> Result<()> {
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}
