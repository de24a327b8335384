//! A waiter's own side of its wait: [`Ticket`], and what it does about futures before it that are not polled.
//!
//! Each waiter gives a sign of life every [`SIGN_OF_LIFE`](crate::liveness::SIGN_OF_LIFE), and looks then at those that were
//! not polled for [`ASLEEP_AFTER`](crate::liveness::ASLEEP_AFTER): a caller that asks the store itself, a waiter that was
//! handed a hold, the waiters in front of the queue; and at a release that takes longer than that, however often it is
//! polled. What they have is taken back, or their seat becomes void and the next waiter is served with a new one: the store keeps
//! holders apart, so two requests of one process cost a round trip and nothing else. The waiters look themselves, and not
//! a task of the client, because that may be in a runtime that is blocked.
// S-34.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use tokio::time::Instant;

use super::waiter::{Left, PassedOver, Turn, Waiter};
use super::{Key, Mode, Queues, Seat};
use crate::error::StoreError;
use crate::liveness::is_asleep;
use crate::store::{HoldNumber, Target};

/// A place in the queue, or a request for the waiter that a task of the client makes: resolves to what the waiter is given.
/// Dropping it ends either at once.
pub(crate) struct Ticket<H> {
    queues: Arc<Queues<H>>,
    target: Arc<Target>,
    waiter: Arc<Waiter<H>>,
    /// True once it has resolved: nothing is left behind.
    is_over: bool,
}

/// What is known when the time of a wait is over.
pub(crate) enum EndOfWait {
    /// The store fails.
    Failing(StoreError),
    /// The lock is busy, by an answer of the store to this wait or because a task of this process has it.
    Busy,
    /// The store was not asked since the wait began. The next answer ends it.
    NextAnswer,
    /// A task asks for this waiter, and ends its wait.
    Asked,
}

impl<H> Ticket<H> {
    pub(super) fn new(queues: Arc<Queues<H>>, target: Arc<Target>, waiter: Arc<Waiter<H>>) -> Self {
        Self { queues, target, waiter, is_over: false }
    }

    /// Its place in the queue.
    pub(crate) fn place(&self) -> u64 {
        self.waiter.number
    }

    /// True if its wait ends at the store's next answer.
    pub(crate) fn ends_at_answer(&self) -> bool {
        self.waiter.ends_at_answer.load(Ordering::Relaxed)
    }

    pub(crate) fn since(&self) -> Instant {
        self.waiter.since
    }

    /// Records a sign of life, and looks at those before it. Returns the owner with which a caller that it passed over may
    /// have been granted the lock.
    #[must_use = "release the hold that this owner may have been granted"]
    pub(crate) fn look(&self) -> Vec<HoldNumber> {
        let Self { queues, target, waiter, .. } = self;
        let now = Instant::now();
        // From here on it waits again, and is in no queue. The task that asked for it may put it back at the same moment
        // (`Asked`'s drop): the second of the two finds it there.
        if waiter.lives(now) {
            queues.wait_again(target, waiter, None);
        }
        let mut asked = Vec::new();
        // What was taken back, and those that turn out to be polled, is dropped after the unlock (invariant 3).
        let (mut passed_over, mut seen) = (Vec::new(), Vec::new());
        let void = {
            let mut shard = queues.shard(target);
            let number = shard.next_number();
            let Some(key) = shard.keys.get_mut(&**target) else { return asked };
            if let Mode::Handed(to) = &key.mode {
                seen.extend(to.upgrade());
            }
            if waiter.is_in_store {
                let before = key.in_store_before(waiter, now, &mut asked);
                seen.extend(before);
                None
            } else if key.queue.contains_key(&waiter.number) {
                // From the front, up to the first that is polled, which may be this one. They queue again at their own next look.
                while let Some(first) = key.queue.first_entry()
                    && let PassedOver::Yes(turn) = first.get().pass_over(now)
                {
                    queues.waiting.fetch_sub(1, Ordering::Relaxed);
                    passed_over.push((first.remove(), turn));
                }
                key.is_seat_asleep(now).then(|| {
                    // The seat of the caller, or of the release, is void from here on: a grant that it gets now is refused by
                    // `Seat::granted`, and released by its own attempt, too. A second release of an owner id takes nothing from
                    // others.
                    asked.extend(key.asked_as.take());
                    key.seat = number;
                    Seat::queued(queues, target, number)
                })
            } else {
                None
            }
        };
        // After the unlock: each decides by its own slot, so one that was polled meanwhile keeps what it has.
        for waiter in seen {
            if let PassedOver::Yes(turn) = waiter.pass_over(now) {
                passed_over.push((waiter, turn));
            }
        }
        for (waiter, turn) in passed_over {
            // A hold that it was handed goes to the next waiter, or is released.
            drop(turn);
            waiter.wake_asker();
        }
        // Serves the next waiter.
        drop(void);
        asked
    }

    /// What is known now that the time of the wait is over. `is_late` if it has been over for a while.
    pub(crate) fn end_of_wait(&self, is_late: bool) -> EndOfWait {
        let mut shard = self.queues.shard(&self.target);
        let Some(key) = shard.keys.get_mut(&*self.target) else { return EndOfWait::Asked };
        let is_queued = key.queue.contains_key(&self.waiter.number);
        if !is_queued && !is_late {
            return EndOfWait::Asked;
        }
        if let Some((_, error)) = key.failing() {
            return EndOfWait::Failing(error.clone());
        }
        let answered_at = key.told.as_ref().and_then(|told| told.answered_at);
        if key.is_held() || answered_at.is_some_and(|at| at >= self.waiter.since) {
            return EndOfWait::Busy;
        }
        if !is_queued {
            return EndOfWait::Asked;
        }
        // The answer may come before the wake below: it takes this waiter out of the queue, and the wake finds nothing to ask
        // for.
        let asked = key.end_at_answer(&self.waiter);
        drop(shard);
        if let Some(asked) = asked {
            asked.wake_asker();
        }
        EndOfWait::NextAnswer
    }
}

impl<H> Key<H> {
    /// True if the seat is with a caller that is not polled, or with a release that takes long.
    fn is_seat_asleep(&mut self, now: Instant) -> bool {
        match &mut self.mode {
            Mode::First { polled_at } => is_asleep(*polled_at, now),
            Mode::Leaving { since, .. } => is_asleep(*since.get_or_insert(now), now),
            Mode::Free | Mode::Asking(_) | Mode::Handed(_) | Mode::Held => false,
        }
    }
}

impl<H> Future for Ticket<H> {
    type Output = Turn<H>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let turn = self.waiter.poll(cx);
        self.is_over |= turn.is_ready();
        turn
    }
}

impl<H> Drop for Ticket<H> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // What it was given goes to the next waiter, as a dropped hold. What a task asks for it is undone at once. Between the
        // two mutexes it is in the queue and takes nothing. A task that takes it out meanwhile counts it out; what the task
        // gives it is refused, and a request that it begins for it ends here, or at its first poll.
        if let Left::Place = self.waiter.leave() {
            let mut shard = self.queues.shard(&self.target);
            let key = shard.keys.get_mut(&*self.target);
            let left = key.and_then(|key| key.queue.remove(&self.waiter.number));
            drop(shard);
            match left {
                Some(_) => drop(self.queues.waiting.fetch_sub(1, Ordering::Relaxed)),
                None => self.waiter.end_request(),
            }
        }
    }
}
