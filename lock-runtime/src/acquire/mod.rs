//! The future behind every acquire: [`Acquire`]; and [`Reached`], a wait for a latch.
//!
//! All kinds return it from `lock`, `acquire` and similar methods, so that a service or a struct can name it.
//! Its documentation states what it promises on cancellation.

// How a lock is acquired, whatever its kind:
//
// - The caller that finds the key unused in its process asks the store, once: an uncontended lock costs one round trip, and no
//   subscription (`first`). All others wait in the queue, and so does that caller if it is refused (`queued`).
// - A task of the client then asks the store for the front of the queue (`contend`): register, then check, then wait. The
//   second request finds a release between the refusal and the subscription, and the subscription reports a later one. A
//   notification is a hint; the store is asked again. Every sleep is bounded by the holder's lease and the poll cap, so a lost
//   notification costs time and nothing else.
// - A request that was sent and not answered is undone (`attempt`), however the acquire ends.
//
// So a waiter has nothing to undo itself. A caller's future that is dropped undoes a request of its own (a first one, or one beside
// the queue), or ends the one that a task makes for it.
// S-14, S-15, S-16, S-21.

mod attempt;
mod collision;
mod contend;
mod enclosing;
mod engine;
mod first;
mod handle;
mod in_turn;
mod long_wait;
#[cfg(feature = "lock-order")]
mod nesting;
mod open;
mod queued;
mod request;
mod run;
mod share;
mod waiting;

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use tokio::task::coop;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::ReusableBoxFuture;

use self::enclosing::{Enclosing, NoGuard, enclosing, enter, may_wait_for_itself, re_enter};
pub(crate) use self::engine::Engine;
use self::first::Tried;
pub(crate) use self::handle::{AcquireSpec, Handle, Part, Spec, lock_options, option_setters};
use self::long_wait::LongWait;
pub use self::open::Reached;
use self::queued::QueuedAcquire;
use self::request::Request;
pub(crate) use self::run::after_body;
pub use self::run::{Run, TryRun};
use crate::error::{LockError, StoreErrorKind};
use crate::guard::LockGuard;
use crate::observe::{AcquireOutcome, AcquireRecorder, Label};
use crate::opaque::opaque_debug;
use crate::options::{LockOptions, Wait};
use crate::store::Target;

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
/// bounded time. A lock that was granted or handed to it is taken back after a second and goes to the next waiter, and so is the
/// right of a caller that asks the store itself; it queues again when it is polled. A lock that the
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
    Queued(Box<QueuedAcquire>, Begun),
    UnderWay(ReusableBoxFuture<'static, Tried>, Begun),
    Failed(LockError),
    Done,
}

struct Unpolled {
    spec: Spec,
    permits: u32,
    label: Label,
}

/// An acquire that does not end at once.
struct Begun {
    request: Arc<Request>,
    recorder: AcquireRecorder,
    long: LongWait,
}

/// A hold that was acquired, and how; or why none was.
type Taken = Result<(AcquireOutcome, LockGuard), LockError>;

/// Result of the first poll. Not a result in a result: taking one out of the other costs a re-entry a tenth of its time.
enum Started {
    Reentered(LockGuard),
    Failed(LockError),
    TakesTime { recorder: AcquireRecorder, is_outermost: bool },
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
        Self { state: State::Failed(error), output: PhantomData }
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
            && spec.engine.queues.is_in_use(&spec.target)
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
                Started::TakesTime { recorder, is_outermost } => {
                    if let Self::Start(unpolled) = std::mem::replace(self, Self::Done) {
                        match begin(unpolled, recorder, is_outermost) {
                            Ok(begun) => *self = begun,
                            Err(taken) => return Poll::Ready(taken),
                        }
                    }
                }
            }
        }
        loop {
            let polled = match self {
                Self::Queued(queued, begun) => match queued.poll(cx) {
                    Poll::Ready(ended) => Poll::Ready(queued.end(ended)),
                    Poll::Pending => {
                        begun.waits(true, cx);
                        Poll::Pending
                    }
                },
                Self::UnderWay(trying, begun) => {
                    let polled = trying.poll(cx);
                    if polled.is_pending() && begun.request.is_waiting() {
                        begun.waits(false, cx);
                    }
                    polled
                }
                _ => match std::mem::replace(self, Self::Done) {
                    Self::Failed(error) => return Poll::Ready(Err(error)),
                    _ => panic!("`Acquire` polled after completion"),
                },
            };
            let tried = ready!(polled);
            // Its place is given up before the end is recorded.
            let begun = match std::mem::replace(self, Self::Done) {
                Self::Queued(_, begun) | Self::UnderWay(_, begun) => begun,
                Self::Start(_) | Self::Failed(_) | Self::Done => unreachable!("it was polled"),
            };
            match begun.next(tried) {
                Ok(next) => *self = next,
                // Its span ends here, also if the caller keeps this future.
                Err(taken) => return Poll::Ready(taken),
            }
        }
    }
}

impl Begun {
    /// Goes on from there.
    ///
    /// # Errors
    ///
    /// The result, if that is its end.
    fn next(mut self, tried: Tried) -> Result<State, Result<LockGuard, LockError>> {
        let request = Arc::clone(&self.request);
        let trying = match tried {
            Tried::Over(Ok((how, mut guard))) => {
                got(&mut self.recorder, how, &mut guard);
                return Err(Ok(guard));
            }
            Tried::Over(Err(error)) => {
                self.recorder.failed(request.spec.target.key(), &error);
                return Err(Err(error));
            }
            Tried::Waits(queued) => return Ok(State::Queued(queued, self)),
            Tried::Again(place, kept) => ReusableBoxFuture::new(request.go_on(place, kept)),
            Tried::Apart => ReusableBoxFuture::new(request.apart()),
            Tried::Failed(error) if error.kind() == StoreErrorKind::WrongType => {
                ReusableBoxFuture::new(request.fails(error))
            }
            Tried::Failed(error) => return self.next(Tried::Over(Err(LockError::Store(error)))),
        };
        Ok(State::UnderWay(trying, self))
    }

    /// Records that it waits.
    fn waits(&mut self, is_polled: bool, cx: &mut Context<'_>) {
        self.recorder.waits();
        self.long.look(&self.request, is_polled, cx);
    }
}

/// Ends at once if it is a re-entry or fails.
fn start(Unpolled { spec, label, .. }: &mut Unpolled) -> Started {
    if let replicas @ Some(_) = spec.options.replicas {
        let spec = spec.make_mut();
        spec.target = Arc::new(spec.target.with_replicas(replicas));
    }
    let AcquireSpec { engine, target, options } = &**spec;
    let mut recorder = AcquireRecorder::new(target, std::mem::take(label));
    if engine.closed.load(Ordering::Acquire) {
        return failed(recorder, target, LockError::Closed);
    }
    if let Some(parts) = spec.parts() {
        return match in_turn::start(spec, parts, recorder.label()) {
            Ok(()) => Started::TakesTime { recorder, is_outermost: false },
            Err(error) => failed(recorder, target, error),
        };
    }
    let around = enclosing(engine, target);
    let mut is_outermost = matches!(around, Enclosing::Nothing);
    match around {
        Enclosing::Same(around) if let Ok(level) = enter(&around.owned, target) => {
            match re_enter(around.owned, level, options) {
                Ok(mut guard) => {
                    got(&mut recorder, AcquireOutcome::Reentered, &mut guard);
                    return Started::Reentered(guard);
                }
                Err(NoGuard::Lost(lost)) => return failed(recorder, target, lost),
                // It enters again below, where there is room for a request.
                Err(NoGuard::TooShort(_)) => {}
            }
        }
        Enclosing::InTheWay(detail) => {
            let key = target.key().to_string();
            return failed(recorder, target, LockError::WouldDeadlock { key, detail });
        }
        Enclosing::Same(_) | Enclosing::Writer(_) | Enclosing::Nothing => {}
    }
    // Not for a re-entry: the code under a hold runs in a runtime.
    if let Err(error) = prepare(engine, target, options, recorder.label(), is_outermost) {
        return failed(recorder, target, error);
    }
    is_outermost = is_outermost && !may_wait_for_itself(engine, target, options);
    Started::TakesTime { recorder, is_outermost }
}

fn failed(mut recorder: AcquireRecorder, target: &Target, error: LockError) -> Started {
    recorder.failed(target.key(), &error);
    Started::Failed(error)
}

/// Sees to it that the client's task runs, and tells the lock order of an acquire that is no re-entry.
fn prepare(
    engine: &Arc<Engine>,
    target: &Target,
    options: &LockOptions,
    label: &Label,
    is_outermost: bool,
) -> Result<(), LockError> {
    engine.leases.ensure_running(engine.leases.check_caller()?);
    #[cfg(feature = "lock-order")]
    if engine.leases.order.is_on() && is_outermost {
        nesting::record(engine, target, options, label);
    }
    #[cfg(not(feature = "lock-order"))]
    let _ = (target, options, label, is_outermost);
    Ok(())
}

/// Goes on with an acquire that takes time.
fn begin(
    Unpolled { spec, permits, .. }: Unpolled,
    recorder: AcquireRecorder,
    is_outermost: bool,
) -> Result<State, Result<LockGuard, LockError>> {
    let started = Instant::now();
    let recorder = recorder.timed_from(started);
    let (span, label) = (recorder.span(), recorder.label().clone());
    let request = Arc::new(Request::new(spec, permits, label, started, span.clone()));
    let begun = Begun { request: Arc::clone(&request), recorder, long: LongWait::default() };
    if !request.label.is_enforced() {
        return Ok(State::UnderWay(span.around(request.shadow_lock()), begun));
    }
    if !span.is_disabled() || request.spec.parts().is_some() {
        let acquiring = async move { Tried::Over(request.acquire_to_end(is_outermost).await) };
        return Ok(State::UnderWay(span.around(acquiring), begun));
    }
    if !is_outermost || !request.asks_at_once() {
        return Ok(State::UnderWay(ReusableBoxFuture::new(request.acquire(is_outermost)), begun));
    }
    // The usual case: it asks the store at once, or waits, with no more room than that needs.
    match request.enter(None, started) {
        Ok(first) => Ok(State::UnderWay(ReusableBoxFuture::new(first.ask()), begun)),
        Err(tried) => begun.next(tried),
    }
}

/// Records how an acquire got its lock.
fn got(recorder: &mut AcquireRecorder, how: AcquireOutcome, guard: &mut LockGuard) {
    guard.set_shadow(!recorder.label().is_enforced());
    recorder.over(how, Some(guard.token()));
}

/// Returns the output of `future` if it comes before `limit`.
async fn until<F: Future>(limit: Option<Instant>, future: F) -> Option<F::Output> {
    match limit {
        None => Some(future.await),
        Some(limit) => timeout_at(limit, future).await.ok(),
    }
}
