//! The future behind every acquire: [`Acquire`].
//!
//! All kinds return it from `lock`, `acquire` and similar methods, so that a service or a struct can name it.
//! Its documentation states what it promises on cancellation.

// The one loop that acquires locks: enter the gate → try → subscribe → try again → wait.
//
// Every kind goes through `Acquire`. The order of the steps makes it correct:
//
// - The gate comes first: one task per key and process talks to the store.
// - The first try never subscribes: an uncontended lock costs one round trip.
// - Then register, check, wait: the second try finds a release between the refusal and the subscription, and
//   the subscription reports a later one. A notification is a hint; the store is asked again. Every sleep is
//   bounded by the holder's lease and the poll cap, so a lost notification costs time and nothing else.
// - A request that was sent and not answered is undone (`Attempt`), however the acquire ends. S-14, S-16, S-15,
//   S-21.

mod attempt;
mod contend;
mod enclosing;
mod engine;
mod first;
mod handle;
mod long_wait;
mod open;
mod outcome;
mod queue;
mod run;
mod share;
mod waiting;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use self::attempt::{Attempt, known_as};
use self::contend::{Contended, Contender};
use self::enclosing::{Enclosing, Within, enclosing, enter, re_enter};
pub(crate) use self::engine::Engine;
pub(crate) use self::handle::{Handle, lock_settings};
pub use self::run::RunLocked;
pub(crate) use self::run::after_body;
use self::share::Joined;
use crate::clock::Tick;
use crate::error::{LockError, StoreError, check_runtime};
use crate::gate::{GuardId, Turn};
use crate::guard::LockGuard;
use crate::lease::manager::LeaseManager;
use crate::lease::reentries::ReentryGuard;
use crate::liveness::{self, SIGN_OF_LIFE};
use crate::observe::{AcquireOutcome, AcquireRecorder, Label, Meter};
use crate::opaque::opaque_debug;
use crate::options::{LockOptions, Wait};
use crate::owned_hold::OwnedHold;
use crate::shadow::SHADOW_TIMEOUT;
use crate::store::{ReleaseRequest, Target};

/// An acquire under way.
///
/// # Cancel safety
///
/// Dropping it gives up the place in the queue and leaves nothing in the store for longer than one round trip:
/// a lock that was granted meanwhile is released in the background.
///
/// # Futures that are not polled
///
/// A future that was polled and then is not, as in a `select!` loop that runs another arm, or in a task that
/// blocks, keeps its place in the queue: the hazard is known as *futurelock*. Here it delays the others for a
/// bounded time. The next waiter passes over a local waiter whose turn has come, or a contender that asks the
/// store for this process, if it is not polled for a second; it queues again when it is polled. A lock that the
/// store granted it meanwhile is not renewed before that, so other processes wait one lease at most. Acquires
/// that run concurrently inside of one hold pass each other over in the same way.
///
/// If an acquire must go on while its caller is busy, spawn a task for it; otherwise drop the future.
///
/// # Panics
///
/// If it is polled after it has completed.
// S-21.
#[must_use = "futures do nothing unless polled"]
pub struct Acquire(State);

enum State {
    /// Not polled yet. Where it is first polled decides whether it is a re-entry.
    // S-6.
    Start(AcquireSpec),
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

/// Result of the first poll: the outcome, or that it takes time.
type Started = Result<Result<LockGuard, LockError>, Acquiring>;

impl Future for Acquire {
    type Output = Result<LockGuard, LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::Start(spec) = &mut self.0 {
            if let Err(error) = check_runtime() {
                self.0 = State::Done;
                return Poll::Ready(Err(error));
            }
            // A re-entry ends here, so the spec is not moved for it: that would be most of its time.
            self.0 = match start(spec) {
                Ok(result) => {
                    self.0 = State::Done;
                    return Poll::Ready(result);
                }
                Err(acquiring) => State::UnderWay(acquiring),
            };
        }
        let State::UnderWay(acquiring) = &mut self.0 else {
            panic!("`Acquire` polled after completion");
        };
        let result = ready!(acquiring.as_mut().poll(cx));
        // Its span ends here, also if the caller keeps this future.
        self.0 = State::Done;
        Poll::Ready(result)
    }
}

opaque_debug!(Acquire);

impl Acquire {
    /// Starts acquiring on the first poll.
    fn new(mut spec: AcquireSpec) -> Self {
        if let replicas @ Some(_) = spec.options.replicas() {
            spec.target = Arc::new(spec.target.with_replicas(replicas));
        }
        Self(State::Start(spec))
    }

    /// An acquire that has already failed.
    pub(crate) fn failed(error: LockError) -> Self {
        Self(State::UnderWay(Box::pin(std::future::ready(Err(error)))))
    }
}

fn start(spec: &mut AcquireSpec) -> Started {
    let AcquireSpec { engine, target, options, permits, label } = spec;
    let recorder = AcquireRecorder::new(target, std::mem::take(label));
    if engine.closed.load(Ordering::Acquire) {
        return Ok(ended(&recorder, AcquireOutcome::Closed, Err(LockError::Closed)));
    }
    let around = enclosing(engine, target);
    let is_outermost = matches!(around, Enclosing::Nothing);
    match around {
        Enclosing::Same(around) if let Ok(reentry) = enter(&around, engine, target) => {
            // An acquire that needs a round trip enters again below, where it can be passed over (S-34).
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
    if !pending.recorder.label().is_enforced() {
        return Err(span.around(pending.shadow_lock()));
    }
    // In futures of their own: a task that waits in the queue has no use for the room that a request needs.
    let attempt = is_outermost.then(|| pending.enter_free_gate()).flatten();
    Err(match attempt {
        Some(attempt) => span.around(pending.run_first(attempt)),
        None => span.around(pending.run()),
    })
}

/// Records the outcome of an acquire: `how`, if it got the lock.
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

/// One acquire that has to queue.
struct PendingAcquire {
    engine: Arc<Engine>,
    target: Arc<Target>,
    options: LockOptions,
    permits: u32,
    /// Its place inside of the write hold around it, if it acquires the read side. Waiting there does not keep
    /// the write hold alive: once that has ended, the read waits as any other.
    inside: Mutex<Option<ReentryGuard>>,
    started: Instant,
    /// When the holder's lease ends, by the store's last answer.
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

    #[expect(clippy::manual_async_fn, reason = "an async function would keep `self` twice")]
    fn run(self) -> impl Future<Output = Result<LockGuard, LockError>> + Send {
        async move {
            let taken = self.log_if_long(self.take()).await;
            self.report(taken)
        }
    }

    /// As [`run`](Self::run), for a call that is not enforced. If it is cancelled, what it acquired is
    /// released.
    // S-21.
    async fn shadow_lock(self) -> Result<LockGuard, LockError> {
        let LeaseManager { breaker, store, .. } = &*self.engine.leases;
        let probe = || {
            let owner = self.engine.next_owner(1);
            ReleaseRequest::new(known_as(&self.target, &owner), owner, SHADOW_TIMEOUT)
        };
        let taken = Box::pin(breaker.ask(store, probe, self.take())).await;
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
                // Not awaited here: a waiter would keep the room of what is matched.
                Within::Nothing => break,
            };
            // Boxed, as all that is rare here: every acquire would have room for it.
            let taking = Box::pin(inside.drive(self.take_hold_at(limit, None)));
            *self.inside.lock() = Some(inside);
            let taken = taking.await;
            // If it was passed over, it queues again inside of the write hold (S-34).
            let inside = self.inside.lock().take();
            if let Some(taken) = taken {
                let (how, mut guard) = taken?;
                if let Some(inside) = inside {
                    guard.set_inside(inside);
                }
                return Ok((how, guard));
            }
        }
        self.take_hold_at(limit, None).await
    }

    /// Calls `look` with the place inside the write hold around this read, if there is one.
    fn inside<T>(&self, look: impl FnOnce(&ReentryGuard) -> T) -> Option<T> {
        self.inside.lock().as_ref().map(look)
    }

    fn is_inside(&self) -> bool {
        self.inside.lock().is_some()
    }

    /// Acquires a hold from the store, or from another task of this process, for a caller that queues at this place
    /// if it has queued before.
    #[expect(clippy::manual_async_fn, reason = "an async function would keep its arguments twice")]
    fn take_hold_at(
        &self,
        limit: Option<Instant>,
        mut place: Option<u64>,
    ) -> impl Future<Output = Result<(AcquireOutcome, LockGuard), LockError>> + Send {
        async move {
            let mut to_join = None;
            loop {
                match self.join(limit, to_join.take()).await {
                    Joined::Yes(result) => return Ok((AcquireOutcome::Joined, result?)),
                    Joined::Unknown(error) if self.gives_up_on(&error) => return Err(error.into()),
                    Joined::Unknown(_) | Joined::No => {}
                }
                let gate_guard = match self.enter_queue(limit, &mut place).await? {
                    Turn::Failed(error) => return Err(LockError::Store(error)),
                    Turn::Closed => return Err(LockError::Closed),
                    Turn::Contend(gate_guard) => gate_guard,
                    Turn::Handed(owned) => {
                        match owned.hold.check().map(|now| self.guard_on(owned, now)) {
                            Ok(guard) => return Ok((AcquireOutcome::HandedOver, guard)),
                            // Lost on the way here; queue again.
                            Err(_) => continue,
                        }
                    }
                    Turn::Shared => continue,
                };
                if self.can_join() {
                    // Another reader has joined it meanwhile. The next waiter finds the same.
                    drop(gate_guard);
                    continue;
                }
                let here = gate_guard.place();
                let id = gate_guard.id();
                // In a box of its own: a task that waits in the queue has no use for the room, and two small boxes are
                // allocated faster than a large one.
                let contending = Box::pin(self.drive(id, async move {
                    let mut attempt = Attempt::new(self, gate_guard);
                    Contender::new(self, &mut attempt, limit).contend().await
                }));
                match contending.await.transpose()? {
                    Some(Contended::Taken(guard)) => return Ok((AcquireOutcome::Acquired, guard)),
                    Some(Contended::JoinableHold(hold)) => to_join = Some(hold),
                    Some(Contended::PassedOver) | None => place = Some(here),
                }
            }
        }
    }

    /// True if this failure ends the acquisition.
    // S-33.
    fn gives_up_on(&self, error: &StoreError) -> bool {
        !error.kind().is_transient()
            || self.options.wait() == Wait::Never
            || self.started.elapsed() >= self.engine.leases.timing.store_patience
    }

    /// How often a waiter checks that the client's tasks run: often enough for the renewals of leases like its
    /// own.
    fn look_every(&self) -> Duration {
        SIGN_OF_LIFE.min(self.options.lease().duration() / 3)
    }

    /// Drives `contending`, which has that gate guard. `None` once it was passed over: it queues again.
    // S-34.
    fn drive<F: Future>(
        &self,
        guard: GuardId,
        contending: F,
    ) -> impl Future<Output = Option<F::Output>> {
        let sign_of_life = move |now| {
            self.engine.leases.ensure_running();
            self.engine.gates.is_contending(&self.target, guard, now)
        };
        liveness::drive(self.look_every(), sign_of_life, contending)
    }

    /// The same, for a contender that has given a sign of life. The next one is due at `first`.
    fn drive_from<F: Future>(
        &self,
        first: Instant,
        guard: GuardId,
        contending: F,
    ) -> impl Future<Output = Option<F::Output>> {
        let sign_of_life = move |now| {
            self.engine.leases.ensure_running();
            self.engine.gates.is_contending(&self.target, guard, now)
        };
        liveness::drive_from(first, self.look_every(), sign_of_life, contending)
    }

    fn limit(&self) -> Option<Instant> {
        match self.options.wait() {
            // Only behind a release that is under way: for as long as that may take.
            Wait::Never => Some(self.started + self.engine.leases.timing.command_timeout * 2),
            Wait::UpTo(wait) => self.started.checked_add(wait),
            Wait::Forever => None,
        }
    }

    /// Returns a guard on the owned hold, which may be lost by now.
    fn guard_on(&self, mut owned: OwnedHold, now: Tick) -> LockGuard {
        if owned.hold.arrives()
            && owned.hold.deadline().since(now) < owned.hold.lease.duration() / 2
        {
            // It may have waited for its new holder for long, and was not renewed meanwhile.
            owned.leases.watchdog.reconsider(&owned.hold);
        }
        owned.keep_until = self.options.at_least().map(|at_least| now.after(at_least));
        owned.hold.begin(Meter::new(self.recorder.label().clone(), self.target.kind()), now);
        let until = self.options.max_hold().map(|max_hold| now.after(max_hold));
        if owned.hold.set_renew_until(until) {
            // The previous holder had a limit, and the watchdog may have stopped renewing because of it.
            owned.leases.watchdog.reconsider(&owned.hold);
        }
        if self.shares() {
            let guard = LockGuard::first_of_many(owned, self.options.on_lost());
            self.offer(&guard.owned);
            return guard;
        }
        LockGuard::outermost(owned, self.options.on_lost())
    }
}

/// Returns the output of `future` if it comes before `limit`.
async fn until<F: Future>(limit: Option<Instant>, future: F) -> Option<F::Output> {
    match limit {
        None => Some(future.await),
        Some(limit) => timeout_at(limit, future).await.ok(),
    }
}
