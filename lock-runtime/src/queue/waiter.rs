//! The state that a waiter shares with its queue: what it wants, and what it was given.
//!
//! | state | what comes next |
//! |---|---|
//! | `Waiting` | `Given`, by whoever serves the queue; `PassedOver`, if it is not polled |
//! | `Given` | `Over`, at its next poll; `PassedOver`, if that does not come and what it was given is taken back |
//! | `PassedOver` | `Waiting` in its old place, at its next poll |
//! | `Over` | nothing: it has what it was given, or is gone |

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Asked, Asking, Seat};
use crate::admin::waits::Asker;
use crate::error::LockError;
use crate::lease::wait_until;
use crate::liveness::is_asleep;
use crate::options::Lease;

/// Keeps what waiters can share, until the last of them has dropped it.
pub(crate) type Kept = Option<Arc<dyn Send + Sync>>;

/// What a waiter is given.
pub(crate) enum Turn<H> {
    /// A hold, with everything that belongs to it. Shared, as its guard is to have it: a waiter has no room for more.
    Handed(Arc<H>),
    /// The waiters can share the hold now.
    Shared(Kept),
    /// The store has answered, or a task of this process has the lock: the end of a wait that lasts only until then.
    Busy,
    Failed(LockError),
    /// The client shuts down.
    Closed,
}

/// What a waiter wants, and how the store is asked for it.
pub(crate) trait Wanted<H>: Send + Sync {
    /// Who waits, for people who look in.
    fn asker(&self) -> Asker;

    /// Has a task of the client [run](Self::run) the request, now or when the client next has a task. It neither waits nor
    /// drops the request.
    fn have_asked(&self, asking: Asking<H>);

    /// Asks the store until the waiter has what it wants, or waits no more.
    fn run(self: Arc<Self>, asked: Asked<H>, seat: Seat<H>) -> BoxFuture<'static, ()>;
}

/// What a hold must be like for a waiter to take it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Terms {
    /// The lease that the store is asked for.
    pub(crate) lease: Lease,
    /// How many replicas must confirm it.
    // S-31: a hold that fewer replicas know of is not what it waits for.
    pub(crate) replicas: u32,
    /// How many permits of a semaphore it has.
    pub(crate) permits: u32,
}

/// The request for a waiter: dropped by the task that runs it, or by the waiter when that leaves, which so undoes at once what the
/// request has begun.
// The mutex is held while the request is polled, and the request locks whatever it needs: so it is the outermost, and only the
// task that polls waits for it. The waiter only tries it.
struct Served(Mutex<Option<BoxFuture<'static, ()>>>);

/// A task's part of [`Served`].
struct Serving(Arc<Served>);

impl Served {
    /// Drops the request. If it is being polled now, it finds out by itself that the waiter is gone.
    // By its first branch, `stops_waiting`: `leave` has notified that before, so the request is polled once more if it has
    // passed it.
    fn end(&self) {
        // After the unlock: this undoes what it has begun.
        let request = self.0.try_lock().and_then(|mut request| request.take());
        drop(request);
    }
}

impl Future for Serving {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let (polled, _over) = {
            let mut request = self.0.0.lock();
            let polled =
                request.as_mut().map_or(Poll::Ready(()), |request| request.as_mut().poll(cx));
            (polled, if polled.is_ready() { request.take() } else { None })
        };
        // What is left of the request is dropped after the unlock: the waiter may be leaving, and finds nothing to end.
        polled
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.end();
    }
}

pub(crate) struct Waiter<H> {
    /// Its place in the queue: smaller than that of every later one.
    pub(super) number: u64,
    pub(super) since: Instant,
    pub(super) terms: Terms,
    pub(super) wanted: Arc<dyn Wanted<H>>,
    /// True if its queue is in the store.
    pub(super) is_in_store: bool,
    /// True if its wait ends at the store's next answer. Written under the shard's mutex.
    // Relaxed: read there as well, or by the caller that has just had it written.
    pub(super) ends_at_answer: AtomicBool,
    /// True if another waiter needs an answer of the store. Written under the shard's mutex.
    is_asked: AtomicBool,
    /// What a task runs for it, and whether one ever did.
    served: Mutex<Weak<Served>>,
    // Relaxed: set before the request runs, and what the request gives is taken under the slot's mutex, which orders the two.
    is_served: AtomicBool,
    /// For the task that asks the store for this waiter: notified when the waiter is gone or passed over, when it uses what it was
    /// given, and when another waiter needs an answer.
    for_asker: Notify,
    // The innermost mutex of the queue: no other is taken under it. Each change of the state is one step under it, so of two
    // tasks that meet at a waiter (one gives, one takes back, one passes over, the waiter polls or leaves) the second finds
    // what the first did.
    slot: Mutex<Slot<H>>,
}

struct Slot<H> {
    state: State<H>,
    /// When it last gave a sign of life.
    polled_at: Instant,
    waker: Option<Waker>,
}

// The table of its states is at the top of this file.
enum State<H> {
    Waiting,
    Given(Turn<H>),
    PassedOver,
    Over,
}

impl<H> Waiter<H> {
    pub(super) fn new(
        number: u64,
        since: Instant,
        polled_at: Instant,
        terms: Terms,
        wanted: Arc<dyn Wanted<H>>,
    ) -> Self {
        Self {
            number,
            since,
            terms,
            wanted,
            is_in_store: false,
            ends_at_answer: AtomicBool::new(false),
            is_asked: AtomicBool::new(false),
            served: Mutex::new(Weak::new()),
            is_served: AtomicBool::new(false),
            for_asker: Notify::new(),
            slot: Mutex::new(Slot { state: State::Waiting, polled_at, waker: None }),
        }
    }

    /// Gives it something, which is dropped here if it does not wait any more.
    pub(super) fn give(&self, turn: Turn<H>) {
        // After the unlock: a waker may run any code, and so may the end of a hold.
        let (waker, _refused) = {
            let mut slot = self.slot.lock();
            match slot.state {
                State::Waiting => {
                    slot.state = State::Given(turn);
                    (slot.waker.take(), None)
                }
                _ => (None, Some(turn)),
            }
        };
        // Between the unlock and the wake, the waiter may be polled and take the turn: it is then woken for nothing. Or the
        // turn is taken back: the waiter is woken, finds itself passed over, and queues again.
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Resolves to what it was given, once.
    pub(super) fn poll(&self, cx: &Context<'_>) -> Poll<Turn<H>> {
        let _old = {
            let mut slot = self.slot.lock();
            if matches!(slot.state, State::Given(_))
                && let State::Given(turn) = std::mem::replace(&mut slot.state, State::Over)
            {
                drop(slot);
                // The task that asked may be in `is_taken`, and looks at the state again.
                if self.is_served.load(Ordering::Relaxed) {
                    self.for_asker.notify_waiters();
                }
                return Poll::Ready(turn);
            }
            // Under the mutex under which `give` takes it out: a turn that comes from here on wakes this poll's waker. Its
            // clone is the only foreign code that runs under this mutex.
            match &slot.waker {
                Some(waker) if waker.will_wake(cx.waker()) => None,
                _ => slot.waker.replace(cx.waker().clone()),
            }
        };
        Poll::Pending
    }

    /// Records that it is polled. True if it had been passed over, and now waits again.
    pub(super) fn lives(&self, now: Instant) -> bool {
        let mut slot = self.slot.lock();
        slot.polled_at = now;
        self.waits_again(&mut slot)
    }

    /// The same, for a waiter that was passed over by the caller, and has not found out.
    pub(super) fn comes_back(&self) -> bool {
        self.waits_again(&mut self.slot.lock())
    }

    fn waits_again(&self, slot: &mut Slot<H>) -> bool {
        let comes_back = matches!(slot.state, State::PassedOver);
        if comes_back {
            slot.state = State::Waiting;
        }
        comes_back
    }

    /// True while it may be given something.
    // For `stops_waiting`, which is told when another task than its own makes it false, and for looks that may be late: `give`
    // decides anew.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.slot.lock().state, State::Waiting)
    }

    /// True if it waits, and was not polled for long.
    pub(super) fn sleeps(&self, now: Instant) -> bool {
        let slot = self.slot.lock();
        matches!(slot.state, State::Waiting | State::Given(_)) && is_asleep(slot.polled_at, now)
    }

    /// Passes it over if it was not polled for long, and takes back what it was given. One step: it may be polled at any time, and
    /// then either was not passed over, or finds that it was. Its waker stays where it is: wakers are not dropped here.
    pub(super) fn pass_over(&self, now: Instant) -> PassedOver<H> {
        let mut slot = self.slot.lock();
        if !is_asleep(slot.polled_at, now) {
            return PassedOver::No;
        }
        self.take(&mut slot)
    }

    /// The same for one that has had its time, or whose client shuts down.
    // Polled or not: a waiter that is polled takes what it was given.
    pub(super) fn take_back(&self) -> PassedOver<H> {
        let mut slot = self.slot.lock();
        match slot.state {
            State::Given(_) => self.take(&mut slot),
            _ => PassedOver::No,
        }
    }

    // What it returns is dropped after the unlock, before the task that asks is woken: that then finds the hold passed on.
    fn take(&self, slot: &mut Slot<H>) -> PassedOver<H> {
        match std::mem::replace(&mut slot.state, State::PassedOver) {
            State::Given(turn) => PassedOver::Yes(Some(turn)),
            State::Waiting => PassedOver::Yes(None),
            state @ (State::PassedOver | State::Over) => {
                slot.state = state;
                PassedOver::No
            }
        }
    }

    /// Ends the wait.
    pub(super) fn leave(&self) -> Left<H> {
        let (state, _waker) = {
            let mut slot = self.slot.lock();
            (std::mem::replace(&mut slot.state, State::Over), slot.waker.take())
        };
        // From the unlock on nothing can be given to it, and what it had is the caller's to drop. It may still be in the queue,
        // until the caller takes it out: a task that finds it there gives it something, which is refused.
        self.for_asker.notify_waiters();
        match state {
            State::Given(turn) => Left::Turn(turn),
            State::Waiting => Left::Place,
            State::PassedOver | State::Over => Left::Nothing,
        }
    }

    /// What a task has to run that asks the store for it.
    pub(super) fn served_by(&self, request: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        // A waiter that has left before this line finds no request to end; the request finds that at its first poll.
        let served = Arc::new(Served(Mutex::new(Some(request))));
        *self.served.lock() = Arc::downgrade(&served);
        self.is_served.store(true, Ordering::Relaxed);
        Box::pin(Serving(served))
    }

    /// Ends the request for it, after it has [left](Self::leave).
    pub(super) fn end_request(&self) {
        let served = self.served.lock().upgrade();
        if let Some(served) = served {
            served.end();
        }
    }

    /// Resolves once it cannot be given anything any more.
    pub(super) async fn stops_waiting(&self) {
        wait_until(&self.for_asker, || !self.is_waiting()).await;
    }

    /// Has the task that asks for it ask the store now, for another waiter. Called under the shard's mutex; [`wake_asker`]
    /// follows after it.
    ///
    /// [`wake_asker`]: Self::wake_asker
    // The partner of this store and of that in `has_answer` is the load in `is_needed`. The shard's mutex orders the stores.
    // The load is repeated after each notification, for which it has registered before; `wake_asker` follows the store, unless
    // the task that asks stores it itself: so none is missed.
    pub(super) fn needs_answer(&self) {
        self.is_asked.store(true, Ordering::SeqCst);
    }

    pub(super) fn wake_asker(&self) {
        self.for_asker.notify_waiters();
    }

    /// Resolves once it has nothing that it was given and has not used.
    pub(super) async fn uses_it(&self) {
        let is_given = || matches!(self.slot.lock().state, State::Given(_));
        wait_until(&self.for_asker, || !is_given()).await;
    }

    /// Resolves when another waiter needs an answer of the store; at once if one already does.
    pub(super) async fn is_needed(&self) {
        wait_until(&self.for_asker, || self.is_asked.load(Ordering::SeqCst)).await;
    }

    /// The store has answered.
    pub(super) fn has_answer(&self) {
        self.is_asked.store(false, Ordering::SeqCst);
    }
}

/// Result of passing a waiter over.
pub(super) enum PassedOver<H> {
    No,
    /// With what it was given, which goes to the next one when it is dropped: after the unlock, and before
    /// [`wake_asker`](Waiter::wake_asker).
    Yes(Option<Turn<H>>),
}

/// What a waiter has left behind.
pub(super) enum Left<H> {
    /// What it was given, for the next one.
    Turn(#[expect(dead_code, reason = "dropped, which serves the next one")] Turn<H>),
    /// A place in the queue, or a request for it.
    Place,
    Nothing,
}
