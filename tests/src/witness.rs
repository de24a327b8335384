//! A task that uses a lock and records all of it, for the check of its history.

use std::convert::Infallible;
use std::sync::Arc;
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
}

impl Witness {
    /// A task with this number, which is its own in its process, and the lock `object`.
    pub fn new(recorder: &Arc<Recorder>, task: u64, object: &str, share: Share) -> Self {
        Self { recorder: Arc::clone(recorder), task, object: object.to_owned(), share }
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
        let mut asking = Asking { witness: self, granted: false };
        self.record(Op::AcquireInvoked);
        let guard = acquire.await?.into();
        let valid_until = deadline(&guard);
        let token = Some(guard.token().get());
        self.record(Op::Acquired { share: self.share, token, valid_until: Some(valid_until) });
        asking.granted = true;
        let ending = Ending { witness: self, hold: guard.watch(), recorded: false };
        Ok(Witnessed { witness: self, ending, guard, valid_until })
    }
}

/// An acquire under way, which may fail or be dropped.
struct Asking<'w> {
    witness: &'w Witness,
    granted: bool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if !self.granted {
            self.witness.record(Op::NotAcquired);
        }
    }
}

/// The deadline that a hold has at this moment.
fn deadline(guard: &LockGuard) -> Stamp {
    // In this order: a deadline that is said to be too early is no harm.
    let now = Stamp::now();
    now.after(guard.remaining())
}

/// How much later a deadline has to be for it to be one of a renewal: the clocks of process and history differ by less.
const RENEWED: Duration = Duration::from_millis(1);

/// How often work has an effect, which also records renewals: more often than a lease can have been renewed twice.
const NOW_AND_THEN: Duration = Duration::from_millis(50);

/// A lock that a [`Witness`] holds. When it is dropped, the guard is.
#[derive(Debug)]
pub struct Witnessed<'w> {
    witness: &'w Witness,
    /// Before the guard, so that the end is recorded before it takes effect.
    ending: Ending<'w>,
    guard: LockGuard,
    /// The deadline that the history knows.
    valid_until: Stamp,
}

impl Witnessed<'_> {
    /// The guard.
    pub fn guard(&self) -> &LockGuard {
        &self.guard
    }

    /// Does something that the lock is to protect.
    pub fn effect(&mut self) {
        did(self.witness, &self.guard, &mut self.valid_until, Op::Effect);
    }

    /// Reads a value that the lock is to protect, works for a while, and writes the value plus one: in
    /// [`LockGuard::run`], so a loss ends it.
    ///
    /// Panics when the server of the value does not answer.
    pub async fn update(&mut self, values: &mut MultiplexedConnection, work: Duration) {
        let Self { witness, guard, valid_until, .. } = self;
        let key = format!("value of {}", witness.object);
        let updating = async {
            let answer = values.get::<_, Option<u64>>(&key).await;
            let from = answer.expect("the server of the values answers").unwrap_or(0);
            sleep(work).await;
            // Before it is written: a process that is stopped right after the record is stopped before the effect.
            did(witness, guard, valid_until, Op::Updated { from, to: from + 1 });
            values.set::<_, _, ()>(&key, from + 1).await.expect("the server of the values answers");
            Ok::<_, LockError>(())
        };
        // The release records a loss.
        let _ = guard.run(updating).await;
    }

    /// Works for a while in [`LockGuard::run`], with an effect now and then. A loss ends the work; the
    /// [release](Self::release) records it.
    pub async fn work(&mut self, time: Duration) {
        let Self { witness, guard, valid_until, .. } = self;
        let end = Instant::now() + time;
        let working = async {
            loop {
                did(witness, guard, valid_until, Op::Effect);
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Ok::<_, LockError>(());
                }
                sleep(left.min(NOW_AND_THEN)).await;
            }
        };
        let _ = guard.run(working).await;
    }

    /// Has an effect each `every` until the lock is lost. With `checked`, they run in [`LockGuard::run`]; without, as in a
    /// service that does not ask its guard.
    pub async fn effects(mut self, every: Duration, checked: bool) -> LockError {
        let Self { witness, ending, guard, valid_until } = &mut self;
        let effects = async {
            loop {
                did(witness, guard, valid_until, Op::Effect);
                sleep(every).await;
            }
        };
        let lost = if checked {
            let outcome: Result<Infallible, LockError> = guard.run(effects).await;
            outcome.map_or_else(|error| error, |never| match never {})
        } else {
            tokio::select! {
                // The effects first, as if nobody looked.
                biased;
                never = effects => match never {},
                error = guard.lost() => error,
            }
        };
        ending.record();
        lost
    }

    /// Releases the lock.
    ///
    /// # Errors
    ///
    /// The error of [`LockGuard::release`].
    pub async fn release(self) -> Result<(), LockError> {
        let Self { witness, mut ending, guard, .. } = self;
        ending.record();
        let released = guard.release().await;
        witness.record(if released.is_ok() { Op::Released } else { Op::NotReleased });
        released
    }
}

/// Records once that the task has done with a hold: when told to, or when it is dropped.
#[derive(Debug)]
struct Ending<'w> {
    witness: &'w Witness,
    hold: LockWatch,
    recorded: bool,
}

impl Ending<'_> {
    fn record(&mut self) {
        if !std::mem::replace(&mut self.recorded, true) {
            let lost = self.hold.is_lost();
            self.witness.record(if lost { Op::Lost } else { Op::ReleaseInvoked });
        }
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.record();
    }
}

/// Records a deadline that is later than the known one, and what was done.
fn did(witness: &Witness, guard: &LockGuard, valid_until: &mut Stamp, op: Op) {
    let now = deadline(guard);
    if now > valid_until.after(RENEWED) {
        *valid_until = now;
        witness.record(Op::Extended { valid_until: now });
    }
    witness.record(op);
}
