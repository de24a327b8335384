//! The future behind every acquire: [`Acquire`].
//!
//! All kinds return it from `lock`, `acquire` and the like, so that a service or a struct can name it. What it
//! promises on cancellation is in its own documentation.

// The one loop that takes locks: enter the gate → try → subscribe → try again → wait.
//
// Every kind goes through `Acquire`. The order at each joint is what makes it right:
//
// - The gate comes first: one task per key and process talks to the store.
// - The first try never subscribes: an uncontended lock costs one round trip.
// - Then register, check, wait: a release between the refusal and the subscription is
//   found by the second try, one after it is found by the subscription. A notice is a hint; the
//   store is asked again. Every sleep is bounded by the holder's lease and the poll cap, so a lost
//   notice costs time and nothing else.
// - What was sent and not answered is undone (`Attempt`), whatever makes us stop.
// S-14, S-16, S-15, S-21.

mod attempt;
mod contend;
mod enclosing;
mod engine;
mod handle;
mod line;
mod long_wait;
mod open;
mod outcome;
mod run;
mod share;
mod waiting;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use self::attempt::known_as;
use self::contend::{Contended, Contender};
use self::enclosing::{Enclosing, Within, enclosing, enter, re_enter};
pub(crate) use self::engine::Engine;
pub(crate) use self::handle::{Handle, lock_settings};
pub use self::run::RunLocked;
pub(crate) use self::run::after_body;
use self::share::Joined;
use crate::error::{LockError, StoreError, check_runtime};
use crate::gate::{GuardId, Turn};
use crate::guard::LockGuard;
use crate::lease::manager::LeaseManager;
use crate::lease::reentries::ReentryGuard;
use crate::liveness::{self, SIGN_OF_LIFE};
use crate::observe::{AcquireOutcome, AcquireRecorder, Label, Meter};
use crate::options::{LockOptions, Wait};
use crate::owned_hold::OwnedHold;
use crate::shadow::SHADOW_TIMEOUT;
use crate::store::{ReleaseRequest, Target};

/// An acquisition under way.
///
/// # Cancel safety
///
/// Dropping it gives up the place in line and leaves nothing in the store longer than one round
/// trip: a lock that was granted meanwhile is given back in the background.
///
/// # Futures that are not polled
///
/// A future that has been polled and then is not, as in a `select!` loop that runs another arm, or in a
/// task that blocks, still stands in line: the hazard is known as *futurelock*. Here it costs the others
/// a bounded time. A local waiter whose turn has come, or that asks the store for this process, and that
/// is not polled for a second is passed over by the next in line, and lines up again when it is polled.
/// What the store granted it meanwhile is not renewed before that, so other processes wait one lease at
/// most. Acquires beside each other inside of one hold pass each other over in the same way.
///
/// Spawn a task for an acquire that is to go on while its caller is busy, or drop the future.
///
/// # Panics
///
/// If it is polled after it has completed.
// S-21.
#[must_use = "futures do nothing unless polled"]
pub struct Acquire(State);

enum State {
    /// Not polled yet. Whether it is re-entry depends on where it is polled.
    // S-6.
    Start(AcquireSpec),
    Failed(LockError),
    UnderWay(Acquiring),
    Done,
}

struct AcquireSpec {
    engine: Arc<Engine>,
    target: Arc<Target>,
    options: LockOptions,
    permits: u32,
    label: Label,
}

type Acquiring = Pin<Box<dyn Future<Output = Result<LockGuard, LockError>> + Send>>;

/// What the first poll finds: the result, or that it takes time.
type Started = Result<Result<LockGuard, LockError>, Acquiring>;

impl Future for Acquire {
    type Output = Result<LockGuard, LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::Start(spec) = &mut self.0 {
            if let Err(error) = check_runtime() {
                self.0 = State::Done;
                return Poll::Ready(Err(error));
            }
            // Re-entry ends here, so the spec is not moved for it: that would be most of its time.
            self.0 = match start(spec) {
                Ok(result) => {
                    self.0 = State::Done;
                    return Poll::Ready(result);
                }
                Err(acquiring) => State::UnderWay(acquiring),
            };
        }
        if let State::UnderWay(acquiring) = &mut self.0 {
            let result = ready!(acquiring.as_mut().poll(cx));
            // Its span ends here, also if the caller keeps this future.
            self.0 = State::Done;
            return Poll::Ready(result);
        }
        match std::mem::replace(&mut self.0, State::Done) {
            State::Failed(error) => Poll::Ready(Err(error)),
            _ => panic!("`Acquire` polled after completion"),
        }
    }
}

impl fmt::Debug for Acquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").finish_non_exhaustive()
    }
}

impl Acquire {
    /// Starts acquiring on the first poll.
    fn new(mut spec: AcquireSpec) -> Self {
        if let replicas @ Some(_) = spec.options.replicas() {
            spec.target = Arc::new(spec.target.with_replicas(replicas));
        }
        Self(State::Start(spec))
    }

    /// An acquisition that has failed already.
    pub(crate) fn failed(error: LockError) -> Self {
        Self(State::Failed(error))
    }
}

fn start(spec: &mut AcquireSpec) -> Started {
    let AcquireSpec { engine, target, options, permits, label } = spec;
    let recorder = AcquireRecorder::new(target, std::mem::take(label));
    if engine.closed.load(Ordering::Acquire) {
        return Ok(ended(&recorder, AcquireOutcome::Closed, Err(LockError::Closed)));
    }
    match enclosing(engine, target) {
        Enclosing::Same(around) if let Ok(reentry) = enter(&around, engine, target) => {
            // What takes a round trip enters again below, where it can be passed over (S-34).
            if let Ok(result) = re_enter(around.owned, reentry, options) {
                return Ok(ended(&recorder, AcquireOutcome::Reentered, result));
            }
        }
        Enclosing::InTheWay(detail) => {
            let error = LockError::WouldDeadlock { key: target.key().to_string(), detail };
            return Ok(ended(&recorder, AcquireOutcome::WouldDeadlock, Err(error)));
        }
        Enclosing::Same(_) | Enclosing::Writer(_) | Enclosing::Nothing => {}
    }
    let span = recorder.span();
    let pending = PendingAcquire::new(engine, target, *options, *permits, recorder);
    Err(match pending.recorder.label().is_enforced() {
        true => Box::pin(span.around(pending.run())),
        false => Box::pin(span.around(pending.shadow_lock())),
    })
}

/// Records the outcome of an acquire: `how`, if the lock was taken.
fn ended(
    recorder: &AcquireRecorder,
    how: AcquireOutcome,
    mut result: Result<LockGuard, LockError>,
) -> Result<LockGuard, LockError> {
    match &mut result {
        Ok(guard) => {
            guard.is_shadow = !recorder.label().is_enforced();
            recorder.over(how, Some(guard.token()));
        }
        Err(error) => recorder.failed(error),
    }
    result
}

/// One acquisition that has to line up.
struct PendingAcquire {
    engine: Arc<Engine>,
    target: Arc<Target>,
    options: LockOptions,
    permits: u32,
    /// Its place inside of the write hold around it, if it wants the read side. Waiting there does
    /// not keep the write hold: once that has ended, the read waits as any other.
    inside: Mutex<Option<ReentryGuard>>,
    started: Instant,
    /// When the holder's lease ends, as the store last said.
    holder_ends: Mutex<Option<Instant>>,
    recorder: AcquireRecorder,
}

impl PendingAcquire {
    fn new(
        engine: &Arc<Engine>,
        target: &Arc<Target>,
        options: LockOptions,
        permits: u32,
        recorder: AcquireRecorder,
    ) -> Self {
        let (inside, holder_ends, started) = (Mutex::default(), Mutex::default(), Instant::now());
        let (engine, target) = (Arc::clone(engine), Arc::clone(target));
        let recorder = recorder.timed_from(started);
        Self { engine, target, options, permits, inside, started, holder_ends, recorder }
    }

    async fn run(self) -> Result<LockGuard, LockError> {
        let taken = self.log_if_long(self.take()).await;
        self.report(taken)
    }

    /// As [`run`](Self::run), for a call that is not enforced. If it is given up half way, what it took is
    /// given back.
    // S-21.
    async fn shadow_lock(self) -> Result<LockGuard, LockError> {
        let LeaseManager { breaker, store, .. } = &*self.engine.leases;
        let probe = || {
            let owner = self.engine.next_owner(1);
            let (target, keep) = (known_as(&self.target, &owner), Duration::ZERO);
            ReleaseRequest { target, owner, keep, timeout: SHADOW_TIMEOUT }
        };
        let taken = breaker.ask(store, probe, self.take()).await;
        self.report(taken)
    }

    fn report(
        &self,
        taken: Result<(AcquireOutcome, LockGuard), LockError>,
    ) -> Result<LockGuard, LockError> {
        let (how, result) = match taken {
            Ok((how, guard)) => (how, Ok(guard)),
            Err(error) => (AcquireOutcome::Failed, Err(error)),
        };
        ended(&self.recorder, how, result)
    }

    async fn take(&self) -> Result<(AcquireOutcome, LockGuard), LockError> {
        self.engine.leases.ensure_running();
        let limit = self.limit();
        loop {
            let inside = match self.enter_within(limit).await? {
                Within::Reentered(guard) => return Ok((AcquireOutcome::Reentered, guard)),
                Within::Writer(inside) => inside,
                Within::Nothing => return self.take_hold(limit).await,
            };
            let taking = inside.drive(self.take_hold(limit));
            *self.inside.lock() = Some(inside);
            let taken = taking.await;
            // Passed over, it lines up again inside of the write hold (S-34).
            let inside = self.inside.lock().take();
            if let Some(taken) = taken {
                let (how, mut guard) = taken?;
                if let Some(inside) = inside {
                    guard.set_inside(inside);
                }
                return Ok((how, guard));
            }
        }
    }

    /// Calls `look` with the place inside the write hold around this read, if there is one.
    fn inside<T>(&self, look: impl FnOnce(&ReentryGuard) -> T) -> Option<T> {
        self.inside.lock().as_ref().map(look)
    }

    fn is_inside(&self) -> bool {
        self.inside.lock().is_some()
    }

    /// Takes a hold from the store, or from another task of this process.
    async fn take_hold(
        &self,
        limit: Option<Instant>,
    ) -> Result<(AcquireOutcome, LockGuard), LockError> {
        let mut to_join = None;
        // Where it stood in line, if it has to line up again.
        let mut place = None;
        loop {
            match self.join(limit, to_join.take()).await {
                Joined::Yes(result) => return Ok((AcquireOutcome::Joined, result?)),
                Joined::Unknown(error) if self.gives_up_on(&error) => return Err(error.into()),
                Joined::Unknown(_) | Joined::No => {}
            }
            let gate_guard = match self.line_up(limit, &mut place).await? {
                Turn::Failed(error) => return Err(LockError::Store(error)),
                Turn::Closed => return Err(LockError::Closed),
                Turn::Contend(gate_guard) => gate_guard,
                Turn::Handed(owned) => match self.stand_on(owned) {
                    Some(guard) => return Ok((AcquireOutcome::HandedOver, guard)),
                    // Lost on the way here; line up again.
                    None => continue,
                },
                Turn::Shared => continue,
            };
            if self.can_join() {
                // Another reader has taken it meanwhile. The next in line finds the same.
                drop(gate_guard);
                continue;
            }
            let here = gate_guard.place();
            let id = gate_guard.id();
            let contending = Contender::new(self, gate_guard, limit).contend();
            match self.drive(id, contending).await.transpose()? {
                Some(Contended::Taken(guard)) => return Ok((AcquireOutcome::Acquired, guard)),
                Some(Contended::JoinableHold(hold)) => to_join = Some(hold),
                Some(Contended::PassedOver) | None => place = Some(here),
            }
        }
    }

    /// True if this failure ends the acquisition.
    // S-33.
    fn gives_up_on(&self, error: &StoreError) -> bool {
        !error.kind().is_transient() || self.is_out_of_patience()
    }

    /// True if the next failure of the store ends the wait.
    fn is_out_of_patience(&self) -> bool {
        self.options.wait() == Wait::Never
            || self.started.elapsed() >= self.engine.leases.timing.store_patience
    }

    /// How often a waiter sees to the client's tasks: often enough for the renewals of leases like its own.
    fn look_every(&self) -> Duration {
        SIGN_OF_LIFE.min(self.options.lease().duration() / 3)
    }

    /// Starts the client's tasks anew if the runtime that ran them has ended: they renew and release what this
    /// process waits for.
    fn restart_tasks(&self) {
        self.engine.leases.ensure_running();
    }

    /// Drives `contending`, which has that gate guard. `None` once it was passed over: it lines up again.
    // S-34.
    async fn drive<F: Future>(&self, guard: GuardId, contending: F) -> Option<F::Output> {
        let sign_of_life = |now| {
            self.restart_tasks();
            self.engine.gates.is_contending(&self.target, guard, now)
        };
        liveness::drive(self.look_every(), sign_of_life, contending).await
    }

    fn limit(&self) -> Option<Instant> {
        match self.options.wait() {
            // Only behind a release that is under way: for as long as that may take.
            Wait::Never => Some(self.started + self.engine.leases.timing.command_timeout * 2),
            Wait::UpTo(wait) => self.started.checked_add(wait),
            Wait::Forever => None,
        }
    }

    /// A guard on the owned hold, which may be lost by now.
    fn stand_on(&self, mut owned: OwnedHold) -> Option<LockGuard> {
        let now = owned.hold.check().ok()?;
        if owned.hold.arrives()
            && owned.hold.deadline().since(now) < owned.hold.lease.duration() / 2
        {
            // It was on its way for long, and nobody renewed it.
            owned.leases.watchdog.reconsider(&owned.hold);
        }
        owned.keep_until = self.options.at_least().map(|at_least| now.after(at_least));
        owned.hold.begin(Meter::new(self.recorder.label().clone(), self.target.kind()), now);
        let until = self.options.max_hold().map(|max_hold| now.after(max_hold));
        if owned.hold.set_renew_until(until) {
            // The holder before us had a limit, and the watchdog may have given the hold up for it.
            owned.leases.watchdog.reconsider(&owned.hold);
        }
        if self.shares() {
            let guard = LockGuard::first_of_many(owned, self.options.on_lost());
            self.offer(&guard.owned);
            return Some(guard);
        }
        Some(LockGuard::outermost(owned, self.options.on_lost()))
    }
}

/// The output of `future` if it comes before `limit`.
async fn until<F: Future>(limit: Option<Instant>, future: F) -> Option<F::Output> {
    match limit {
        None => Some(future.await),
        Some(limit) => timeout_at(limit, future).await.ok(),
    }
}
