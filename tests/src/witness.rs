//! A task that uses a lock and records all of it, for the check of its history.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_runtime::guard::LockWatch;
use lock_runtime::{LockError, LockGuard};
use redis::AsyncCommands as _;
use redis::aio::MultiplexedConnection;
use tokio::time::{Instant, sleep};

use crate::history::{Op, Recorder, Share, Stamp};

/// One task that acquires one lock, over and over.
#[derive(Debug)]
pub struct Witness {
    recorder: Arc<Recorder>,
    task: u64,
    object: String,
    share: Share,
    /// True if the acquire under way was granted.
    granted: AtomicBool,
}

impl Witness {
    /// A task with this number, which is its own in its process, and the lock `object`.
    pub fn new(recorder: &Arc<Recorder>, task: u64, object: &str, share: Share) -> Self {
        let (recorder, object) = (Arc::clone(recorder), object.to_owned());
        Self { recorder, task, object, share, granted: AtomicBool::new(false) }
    }

    fn record(&self, op: Op) {
        self.recorder.record(self.task, &self.object, op);
    }

    /// Acquires the lock.
    ///
    /// # Errors
    ///
    /// The error of `acquire`.
    ///
    /// # Cancel safety
    ///
    /// That of `acquire`. The history then says that the task did not get the lock.
    pub async fn acquire<G: Into<LockGuard>>(
        &self,
        acquire: impl Future<Output = Result<G, LockError>>,
    ) -> Result<Witnessed<'_>, LockError> {
        let _asking = self.asks();
        let guard = acquire.await?.into();
        Ok(Witnessed { holding: self.granted(guard.watch()), guard })
    }

    /// Makes a call that acquires the lock and then runs a body, which says so by [`is_inside`](Self::is_inside).
    ///
    /// # Cancel safety
    ///
    /// That of `call`.
    pub async fn call<T>(&self, call: impl Future<Output = T>) -> T {
        let _asking = self.asks();
        call.await
    }

    /// As [`call`](Self::call), for a call that blocks its thread.
    pub fn call_blocking<T>(&self, call: impl FnOnce() -> T) -> T {
        let _asking = self.asks();
        call()
    }

    /// The hold around the body that runs.
    ///
    /// Panics if there is none.
    pub fn is_inside(&self) -> Holding<'_> {
        self.granted(LockGuard::current().expect("a body under a lock has a hold around it"))
    }

    fn asks(&self) -> Asking<'_> {
        self.record(Op::AcquireInvoked);
        Asking(self)
    }

    fn granted(&self, hold: LockWatch) -> Holding<'_> {
        let valid_until = deadline(&hold);
        let token = Some(hold.token().get());
        self.record(Op::Acquired { share: self.share, token, valid_until: Some(valid_until) });
        self.granted.store(true, Ordering::Relaxed);
        Holding { witness: self, hold, valid_until, ended: false }
    }
}

/// An acquire under way, which may fail or be dropped.
struct Asking<'w>(&'w Witness);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if !self.0.granted.swap(false, Ordering::Relaxed) {
            self.0.record(Op::NotAcquired);
        }
    }
}

/// The deadline that a hold has at this moment.
fn deadline(hold: &LockWatch) -> Stamp {
    // In this order: a deadline that is said to be too early is no harm.
    let now = Stamp::now();
    now.after(hold.remaining())
}

/// How much later a deadline has to be for it to be one of a renewal: the clocks of process and history differ by less.
const RENEWED: Duration = Duration::from_millis(1);

/// How often work has an effect, which also records renewals: more often than a lease can have been renewed twice.
const NOW_AND_THEN: Duration = Duration::from_millis(50);

/// A hold as its task uses it. When it is dropped, the task has done with the lock.
#[derive(Debug)]
pub struct Holding<'w> {
    witness: &'w Witness,
    hold: LockWatch,
    /// The deadline that the history knows.
    valid_until: Stamp,
    ended: bool,
}

impl Holding<'_> {
    /// Does something that the lock is to protect.
    pub fn effect(&mut self) {
        self.did(Op::Effect);
    }

    fn did(&mut self, op: Op) {
        self.record_renewal();
        self.witness.record(op);
    }

    /// Records the deadline if it is later than the known one.
    fn record_renewal(&mut self) {
        let now = deadline(&self.hold);
        // What is left of a hold that is over is no deadline.
        if now > self.valid_until.after(RENEWED) && !self.hold.is_lost() {
            self.valid_until = now;
            self.witness.record(Op::Extended { valid_until: now });
        }
    }

    /// Reads a value that the lock is to protect, works for a while, and writes the value plus one.
    ///
    /// Panics when the server of the value does not answer.
    pub async fn update(&mut self, values: &mut MultiplexedConnection, work: Duration) {
        let from = self.read(values).await;
        self.now_and_then(work, Self::record_renewal).await;
        self.write(values, from).await;
    }

    /// Writes one more than `from`.
    async fn write(&mut self, values: &mut MultiplexedConnection, from: u64) {
        self.will_write(from);
        // The client library does not send a request whose caller has gone meanwhile.
        let writing = Writing(self.witness);
        let written = values.set::<_, _, ()>(self.value(), from + 1).await;
        written.expect("the server of the values answers");
        std::mem::forget(writing);
    }

    /// Reads a value that the lock is to protect, works for a while, and reads it again: no writer may have come between.
    ///
    /// Panics when the server of the value does not answer.
    pub async fn reread(&mut self, values: &mut MultiplexedConnection, work: Duration) {
        let before = self.read(values).await;
        self.work(work).await;
        let after = self.read(values).await;
        self.did(Op::Reread { before, after });
    }

    async fn read(&self, values: &mut MultiplexedConnection) -> u64 {
        let answer = values.get::<_, Option<u64>>(self.value()).await;
        answer.expect("the server of the values answers").unwrap_or(0)
    }

    /// The key of the value that the lock is to protect.
    fn value(&self) -> String {
        format!("value of {}", self.witness.object)
    }

    /// Counts its permits in, works for a while, and counts them out again.
    ///
    /// Panics when the server of the count does not answer, or if the lock has no permits.
    pub async fn count(&mut self, values: &mut MultiplexedConnection, work: Duration) {
        let Share::Permits { count, .. } = self.witness.share else { panic!("{self:?}") };
        let key = format!("inside {}", self.witness.object);
        let inside = values.incr(&key, count).await.expect("the server of the count answers");
        self.did(Op::Entered { inside });
        self.work(work).await;
        values.decr::<_, _, ()>(&key, count).await.expect("the server of the count answers");
    }

    /// Records that it has read `from` and writes one more.
    ///
    /// Before it is written: a process that is stopped right after the record is stopped before the effect.
    pub fn will_write(&mut self, from: u64) {
        self.did(Op::Updated { from, to: from + 1 });
    }

    /// Works for a while, with an effect now and then.
    pub async fn work(&mut self, time: Duration) {
        self.now_and_then(time, Self::effect).await;
    }

    /// Waits for that time, and does something at its start, now and then, and at its end. A loss may come after a renewal, so
    /// renewals have to be recorded meanwhile.
    async fn now_and_then(&mut self, time: Duration, does: impl Fn(&mut Self)) {
        let end = Instant::now() + time;
        loop {
            does(self);
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            sleep(left.min(NOW_AND_THEN)).await;
        }
    }

    /// Records, once, that the task has done with the hold.
    fn end(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            let lost = self.hold.is_lost();
            self.witness.record(if lost { Op::Lost } else { Op::ReleaseInvoked });
        }
    }
}

/// A write under way, which may be dropped.
struct Writing<'w>(&'w Witness);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.record(Op::WriteCancelled);
    }
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// A lock that a [`Witness`] holds by a guard.
#[derive(Debug)]
pub struct Witnessed<'w> {
    /// Before the guard, so that the end is recorded before it takes effect.
    holding: Holding<'w>,
    guard: LockGuard,
}

impl Witnessed<'_> {
    /// The guard.
    pub fn guard(&self) -> &LockGuard {
        &self.guard
    }

    /// As [`Holding::effect`].
    pub fn effect(&mut self) {
        self.holding.effect();
    }

    /// Records a later deadline, if it has one since.
    pub fn record_renewal(&mut self) {
        self.holding.record_renewal();
    }

    /// As [`Holding::update`], in [`LockGuard::run`]. A loss ends it; the [release](Self::release) records that.
    pub async fn update(&mut self, values: &mut MultiplexedConnection, work: Duration) {
        let _ = self.guard.run(self.holding.update(values, work)).await;
    }

    /// Acquires the lock twice more in its hold, side by side, and updates the value in each re-entry: they exclude each other.
    /// A loss ends them; the [release](Self::release) records that.
    pub async fn update_in_reentries<F: Future<Output = Result<LockGuard, LockError>>>(
        &mut self,
        values: &mut MultiplexedConnection,
        work: Duration,
        acquire: impl Fn() -> F,
    ) {
        let token = self.guard.token();
        let holding = tokio::sync::Mutex::new((&mut self.holding, values));
        let reenter = async || {
            let inner = acquire().await?;
            assert_eq!(inner.token(), token, "a re-entry is in its hold");
            let (from, mut values) = {
                let (holding, values) = &mut *holding.lock().await;
                (holding.read(values).await, values.clone())
            };
            sleep(work).await;
            holding.lock().await.0.write(&mut values, from).await;
            inner.release().await
        };
        // A loss is recorded as that of the hold.
        let _ = self.guard.run(async { tokio::join!(reenter(), reenter()) }).await;
    }

    /// As [`Holding::reread`], in [`LockGuard::run`]. A loss ends it; the [release](Self::release) records that.
    pub async fn reread(&mut self, values: &mut MultiplexedConnection, work: Duration) {
        let _ = self.guard.run(self.holding.reread(values, work)).await;
    }

    /// As [`Holding::count`], in [`LockGuard::run`]. A loss ends it; the [release](Self::release) records that.
    pub async fn count(&mut self, values: &mut MultiplexedConnection, work: Duration) {
        let _ = self.guard.run(self.holding.count(values, work)).await;
    }

    /// As [`Holding::work`], in [`LockGuard::run`]. A loss ends it; the [release](Self::release) records that.
    pub async fn work(&mut self, time: Duration) {
        let _ = self.guard.run(self.holding.work(time)).await;
    }

    /// Has an effect each `every` until the lock is lost. With `checked`, they run in [`LockGuard::run`]; without, as in a
    /// service that waits, acts, and only then asks its guard.
    pub async fn effects(mut self, every: Duration, checked: bool) -> LockError {
        let Self { holding, guard } = &mut self;
        if !checked {
            loop {
                sleep(every).await;
                holding.effect();
                if guard.is_lost() {
                    return guard.lost().await;
                }
            }
        }
        let effects = async {
            loop {
                holding.effect();
                sleep(every).await;
            }
        };
        let outcome: Result<Infallible, LockError> = guard.run(effects).await;
        outcome.map_or_else(|error| error, |never| match never {})
    }

    /// Releases the lock.
    ///
    /// # Errors
    ///
    /// The error of [`LockGuard::release`].
    pub async fn release(self) -> Result<(), LockError> {
        let Self { mut holding, guard } = self;
        let witness = holding.witness;
        holding.end();
        let released = guard.release().await;
        witness.record(match &released {
            Ok(()) => Op::Released,
            Err(error) => Op::NotReleased { lost: matches!(error, LockError::Lost { .. }) },
        });
        released
    }
}
