//! The state that a waiter in a local queue shares with the gate: its terms, and its turn once that has come.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::GateGuard;
use crate::error::StoreError;
use crate::options::Lease;
use crate::waits::Asker;

/// Keeps what waiters can share, until the last of them has dropped it.
pub(crate) type Kept = Option<Arc<dyn Send + Sync>>;

/// What a waiter gets when it reaches the front.
pub(crate) enum Turn<H> {
    /// The right to contend in the store.
    Contend(GateGuard<H>),
    /// A hold, with everything that belongs to it. Shared, as its guard is to have it: a waiter has no room for more.
    Handed(Arc<H>),
    /// The end of the wait: the store has been failing for longer than the patience.
    Failed(StoreError),
    /// The end of this queue: the waiters can share the hold now.
    Shared(Kept),
    /// The end of every queue: the client shuts down.
    Closed,
}

pub(super) struct Waiter<H> {
    /// Its place in the queue.
    pub(super) number: u64,
    pub(super) since: Instant,
    pub(super) lease: Lease,
    /// How many replicas must confirm its hold.
    // S-31.
    pub(super) replicas: u32,
    pub(super) asker: Asker,
    slot: Mutex<Slot<H>>,
}

struct Slot<H> {
    state: State<H>,
    waker: Option<Waker>,
}

/// A turn is stored here until the waiter is polled, and can be taken back until then.
// S-34.
enum State<H> {
    Waiting,
    Given(Turn<H>),
    /// Its turn was taken back, or it was not polled when that would have come.
    PassedOver,
    /// The turn was taken, or the waiter is gone.
    Over,
}

impl<H> Waiter<H> {
    pub(super) fn new(
        number: u64,
        since: Instant,
        lease: Lease,
        replicas: u32,
        asker: Asker,
        waker: Option<Waker>,
    ) -> Self {
        let slot = Mutex::new(Slot { state: State::Waiting, waker });
        Self { number, since, lease, replicas, asker, slot }
    }

    /// Gives it its turn. If the waiter has just gone, the turn is dropped here.
    pub(super) fn give(&self, turn: Turn<H>) {
        let (waker, refused) = {
            let mut slot = self.slot.lock();
            match slot.state {
                State::Waiting => {
                    slot.state = State::Given(turn);
                    (slot.waker.take(), None)
                }
                _ => (None, Some(turn)),
            }
        };
        drop(refused);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Resolves to the turn, once.
    pub(super) fn poll(&self, cx: &Context<'_>) -> Poll<Turn<H>> {
        let _old = {
            let mut slot = self.slot.lock();
            if matches!(slot.state, State::Given(_))
                && let State::Given(turn) = std::mem::replace(&mut slot.state, State::Over)
            {
                return Poll::Ready(turn);
            }
            match &slot.waker {
                Some(waker) if waker.will_wake(cx.waker()) => None,
                _ => slot.waker.replace(cx.waker().clone()),
            }
        };
        Poll::Pending
    }

    /// Takes back a turn that was not used; the waiter is then passed over.
    pub(super) fn take_back(&self) -> TakenBack<H> {
        let mut slot = self.slot.lock();
        match std::mem::replace(&mut slot.state, State::PassedOver) {
            State::Given(turn) => TakenBack::Turn(turn),
            State::Over => {
                slot.state = State::Over;
                TakenBack::Over
            }
            other => {
                slot.state = other;
                TakenBack::NotYet
            }
        }
    }

    /// Passes over a waiter in the queue. Its waker stays where it is: wakers are not dropped here.
    pub(super) fn pass_over(&self) {
        let mut slot = self.slot.lock();
        if matches!(slot.state, State::Waiting) {
            slot.state = State::PassedOver;
        }
    }

    /// True if it had been passed over and now waits again.
    pub(super) fn comes_back(&self) -> bool {
        let mut slot = self.slot.lock();
        let comes_back = matches!(slot.state, State::PassedOver);
        if comes_back {
            slot.state = State::Waiting;
        }
        comes_back
    }

    /// Ends the wait.
    pub(super) fn leave(&self) -> Left<H> {
        let (state, _waker) = {
            let mut slot = self.slot.lock();
            (std::mem::replace(&mut slot.state, State::Over), slot.waker.take())
        };
        match state {
            State::Given(turn) => Left::Turn(turn),
            State::Waiting => Left::Queue,
            State::PassedOver | State::Over => Left::Nothing,
        }
    }
}

/// What a waiter has left behind.
pub(super) enum Left<H> {
    /// A turn that had come, for the next one.
    Turn(#[expect(dead_code, reason = "dropped, which admits the next one")] Turn<H>),
    /// Its place in the queue.
    Queue,
    Nothing,
}

/// Result of taking a turn back.
pub(super) enum TakenBack<H> {
    Turn(Turn<H>),
    /// It is on its way to the waiter.
    NotYet,
    /// The waiter has used it, or is gone and admits the next one.
    Over,
}
