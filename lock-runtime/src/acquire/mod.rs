//! The future behind every acquire: [`Acquire`]; and [`Reached`], a wait for a latch.
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
mod collision;
mod contend;
mod enclosing;
mod engine;
mod first;
mod handle;
mod long_wait;
#[cfg(feature = "lock-order")]
mod nesting;
mod open;
mod outcome;
mod pending;
mod queue;
mod queued;
mod run;
mod share;
mod waiting;

use std::cell::RefCell;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use tokio::runtime::Id;
use tokio::task::coop;
use tokio::time::{Instant, timeout_at};

use self::enclosing::{Enclosing, NoGuard, enclosing, enter, may_wait_for_itself, re_enter};
pub(crate) use self::engine::Engine;
pub(crate) use self::handle::{AcquireSpec, Handle, Spec, lock_options, option_setters};
pub use self::open::Reached;
use self::pending::PendingAcquire;
use self::queued::QueuedAcquire;
pub(crate) use self::run::after_body;
pub use self::run::{Run, TryRun};
use crate::error::LockError;
use crate::guard::LockGuard;
use crate::observe::{AcquireOutcome, AcquireRecorder, Label};
use crate::opaque::opaque_debug;
use crate::options::Wait;
use crate::reuse::{self, Boxed, Idle};

/// An acquire under way: of a [`LockGuard`], or, if being busy is no error, of an `Option` of one.
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
/// store granted it meanwhile is not renewed before that, so other processes wait one lease at most. Inside of one
/// hold an acquire keeps its turn, as with tokio's locks: those beside it wait there for no longer than their own `wait`.
///
/// If an acquire must go on while its caller is busy, spawn a task for it; otherwise drop the future.
///
/// # Panics
///
/// If it is polled after it has completed.
// S-21.
#[must_use = "futures do nothing unless polled"]
pub struct Acquire<T = LockGuard> {
    state: State,
    output: PhantomData<fn() -> T>,
}

enum State {
    /// Not polled yet. Where it is first polled decides whether it is a re-entry.
    // S-6.
    Start(Unpolled),
    /// The turn, or a timer, wakes the task.
    Queued(Box<QueuedAcquire>),
    UnderWay(UnderWay),
    Done,
}

struct UnderWay {
    acquiring: Acquiring,
    /// Where its box is kept when it has completed.
    idle: Option<&'static Idle<Result<LockGuard, LockError>>>,
}

struct Unpolled {
    spec: Spec,
    permits: u32,
    label: Label,
}

/// What is known of an acquire that does not end at once.
struct TakesTime {
    recorder: AcquireRecorder,
    is_outermost: bool,
    runtime: Id,
}

type Acquiring = Boxed<Result<LockGuard, LockError>>;

thread_local! {
    /// For the acquires that ask the store at once, and for those that neither do nor are a [`QueuedAcquire`]: a box fits
    /// futures of one size.
    static IDLE: RefCell<Vec<Acquiring>> = const { RefCell::new(Vec::new()) };
    static IDLE_OTHERS: RefCell<Vec<Acquiring>> = const { RefCell::new(Vec::new()) };
}

/// Result of the first poll. Not a result in a result: taking one out of the other costs a re-entry a tenth of its time.
enum Started {
    Reentered(LockGuard),
    Failed(LockError),
    TakesTime(TakesTime),
}

impl Future for Acquire {
    type Output = Result<LockGuard, LockError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.state.poll(cx)
    }
}

/// Resolves to `None` if another holder has the lock, or goes first.
impl Future for Acquire<Option<LockGuard>> {
    type Output = Result<Option<LockGuard>, LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(self.state.poll(cx)) {
            Ok(guard) => Ok(Some(guard)),
            Err(LockError::Busy { .. }) => Ok(None),
            Err(error) => Err(error),
        })
    }
}

opaque_debug!(<T> Acquire<T>);

impl<T> Acquire<T> {
    /// Starts acquiring on the first poll.
    fn new(unpolled: Unpolled) -> Self {
        Self { state: State::Start(unpolled), output: PhantomData }
    }

    /// An acquire that has already failed.
    pub(crate) fn failed(error: LockError) -> Self {
        let state = Acquiring::new(std::future::ready(Err(error))).into();
        Self { state, output: PhantomData }
    }
}

impl State {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<LockGuard, LockError>> {
        // A loop over locks that are free must let the other tasks of its thread run.
        let turn = match coop::poll_proceed(cx) {
            Poll::Ready(turn) => Some(turn),
            // Its place in the line is that of its first poll (S-14), and a wait lets other tasks run anyway.
            Poll::Pending if self.queues() => None,
            Poll::Pending => return Poll::Pending,
        };
        let polled = self.poll_further(cx);
        if let Some(turn) = turn.filter(|_| polled.is_ready()) {
            turn.made_progress();
        }
        polled
    }

    /// True if its first poll is to come and will have it wait behind other tasks of this process.
    fn queues(&self) -> bool {
        let Self::Start(Unpolled { spec, .. }) = self else { return false };
        spec.options.get_wait() != Wait::None
            && spec.engine.gates.is_in_use(&spec.target)
            && matches!(enclosing(&spec.engine, &spec.target), Enclosing::Nothing)
    }

    #[inline]
    fn poll_further(&mut self, cx: &mut Context<'_>) -> Poll<Result<LockGuard, LockError>> {
        if let Self::Start(unpolled) = self {
            // A re-entry ends here, so nothing is moved for it: that would be most of its time.
            match start(unpolled) {
                Started::Reentered(guard) => {
                    *self = Self::Done;
                    return Poll::Ready(Ok(guard));
                }
                Started::Failed(error) => {
                    *self = Self::Done;
                    return Poll::Ready(Err(error));
                }
                Started::TakesTime(started) => {
                    if let Self::Start(unpolled) = std::mem::replace(self, Self::Done) {
                        *self = go_on(unpolled, started, cx);
                        if let Self::Queued(_) = self {
                            return Poll::Pending;
                        }
                    }
                }
            }
        }
        if let Self::Queued(queued) = self {
            let turn = ready!(queued.poll(cx));
            if let Self::Queued(queued) = std::mem::replace(self, Self::Done) {
                match queued.end(turn) {
                    Ok(guard) => return Poll::Ready(Ok(guard)),
                    Err(acquiring) => *self = acquiring.into(),
                }
            }
        }
        let Self::UnderWay(under_way) = self else {
            panic!("`Acquire` polled after completion");
        };
        let result = ready!(under_way.acquiring.poll(cx));
        // Its span ends here, also if the caller keeps this future.
        let done = std::mem::replace(self, Self::Done);
        if let Self::UnderWay(UnderWay { acquiring, idle: Some(idle) }) = done {
            reuse::keep(idle, acquiring);
        }
        Poll::Ready(result)
    }
}

impl From<Acquiring> for State {
    fn from(acquiring: Acquiring) -> Self {
        Self::UnderWay(UnderWay { acquiring, idle: None })
    }
}

impl State {
    fn with(idle: &'static Idle<Result<LockGuard, LockError>>, acquiring: Acquiring) -> Self {
        Self::UnderWay(UnderWay { acquiring, idle: Some(idle) })
    }
}

/// Ends at once if it is a re-entry or fails.
fn start(Unpolled { spec, label, .. }: &mut Unpolled) -> Started {
    if let replicas @ Some(_) = spec.options.replicas {
        let spec = spec.make_mut();
        spec.target = Arc::new(spec.target.with_replicas(replicas));
    }
    let AcquireSpec { engine, target, options } = &**spec;
    let recorder = AcquireRecorder::new(target, std::mem::take(label));
    let failed = |error: LockError| {
        recorder.failed(target.key(), &error);
        Started::Failed(error)
    };
    if engine.closed.load(Ordering::Acquire) {
        return failed(LockError::Closed);
    }
    let around = enclosing(engine, target);
    let mut is_outermost = matches!(around, Enclosing::Nothing);
    match around {
        Enclosing::Same(around) if let Ok(level) = enter(&around.owned, engine, target) => {
            match re_enter(around.owned, level, options) {
                Ok(mut guard) => {
                    got(&recorder, AcquireOutcome::Reentered, &mut guard);
                    return Started::Reentered(guard);
                }
                Err(NoGuard::Lost(lost)) => return failed(lost),
                // It enters again below, where there is room for a request.
                Err(NoGuard::TooShort(_)) => {}
            }
        }
        Enclosing::InTheWay(detail) => {
            let key = target.key().to_string();
            return failed(LockError::WouldDeadlock { key, detail });
        }
        Enclosing::Same(_) | Enclosing::Writer(_) | Enclosing::Nothing => {}
    }
    // Not for a re-entry: the code under a hold runs in a runtime.
    let runtime = match engine.leases.check_caller() {
        Ok(runtime) => runtime,
        Err(error) => return failed(error),
    };
    engine.leases.ensure_running(runtime);
    #[cfg(feature = "lock-order")]
    if engine.leases.order.is_on() && is_outermost {
        nesting::record(engine, target, options, recorder.label());
    }
    is_outermost = is_outermost && !may_wait_for_itself(engine, target, options);
    Started::TakesTime(TakesTime { recorder, is_outermost, runtime })
}

/// Goes on with an acquire that takes time.
fn go_on(
    Unpolled { spec, permits, .. }: Unpolled,
    started: TakesTime,
    cx: &mut Context<'_>,
) -> State {
    let TakesTime { recorder, is_outermost, runtime } = started;
    let span = recorder.span();
    let pending = PendingAcquire::new(spec, permits, recorder);
    if !pending.recorder.label().is_enforced() {
        return span.around(pending.shadow_lock()).into();
    }
    // In futures of their own: a task that waits in the queue has no use for the room that a request needs.
    let attempt = if span.is_disabled() && is_outermost && pending.queues_at_once() {
        match pending.enter_at_once(cx.waker()) {
            Ok(attempt) => Some(attempt),
            Err(admission) => {
                let queued = QueuedAcquire::new(runtime, cx, pending, admission);
                return queued.map_or_else(State::from, State::Queued);
            }
        }
    } else {
        is_outermost.then(|| pending.enter_free_gate()).flatten()
    };
    match attempt {
        Some(attempt) if span.is_disabled() => {
            State::with(&IDLE, reuse::boxed(&IDLE, pending.run_first(attempt)))
        }
        Some(attempt) => span.around(pending.run_first(attempt)).into(),
        None if span.is_disabled() => {
            State::with(&IDLE_OTHERS, reuse::boxed(&IDLE_OTHERS, pending.run(is_outermost)))
        }
        None => span.around(pending.run(is_outermost)).into(),
    }
}

/// Records how an acquire got its lock.
fn got(recorder: &AcquireRecorder, how: AcquireOutcome, guard: &mut LockGuard) {
    guard.is_shadow = !recorder.label().is_enforced();
    recorder.over(how, Some(guard.token()));
}

/// Returns the output of `future` if it comes before `limit`.
async fn until<F: Future>(limit: Option<Instant>, future: F) -> Option<F::Output> {
    match limit {
        None => Some(future.await),
        Some(limit) => timeout_at(limit, future).await.ok(),
    }
}
