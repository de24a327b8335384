//! An acquire that waits: in the queue, or for the task that asks the store for it. Most tasks of a crowd only wait, so this has no
//! room for a request to the store.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::time::{Instant, Sleep, sleep_until};

use super::first::Tried;
use super::request::Request;
use super::waiting::A_MOMENT;
use crate::error::{BusyReason, LockError};
use crate::observe::AcquireOutcome;
use crate::options::Wait;
use crate::owned_hold::OwnedHold;
use crate::queue::{EndOfWait, Ticket, Turn};

/// A wait.
// | `is_late` | `limit` | when it is over |
// |---|---|---|
// | no | the end of the wait | it ends, if the store fails or the lock is known to be busy; otherwise it is late, for a moment more |
// | yes | a moment for the store's answer | the same, or it ends as not answered; a `try_lock`, which begins late, then asks by itself |
pub(super) struct QueuedAcquire {
    ticket: Ticket<OwnedHold>,
    pub(super) request: Arc<Request>,
    /// When it ends without a turn.
    limit: Option<Instant>,
    /// True if it waits for an answer of the store about another task's request, and asks itself if none comes.
    is_try: bool,
    /// True once its time is over, and only an answer of the store is awaited.
    is_late: bool,
    /// When to look next at those before it.
    look_at: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

/// How a wait has ended.
pub(super) enum Ended {
    Turn(Turn<OwnedHold>),
    /// The store has refused the lock.
    TimedOut,
    /// The store has not answered.
    Unanswered,
}

impl QueuedAcquire {
    pub(super) fn new(request: Arc<Request>, ticket: Ticket<OwnedHold>) -> Self {
        let is_try = ticket.ends_at_answer();
        let limit = match is_try {
            // It shares what the task that asks is granted: worth as long as two answers take.
            true if request.shares() => request.limit().map(|limit| limit + A_MOMENT),
            true => Some(Instant::now() + A_MOMENT),
            false => request.limit(),
        };
        let look_at = ticket.since().max(request.started) + request.look_every();
        Self { ticket, request, limit, is_try, is_late: is_try, look_at, timer: None }
    }

    pub(super) fn place(&self) -> u64 {
        self.ticket.place()
    }

    /// Waits, and looks regularly at those before it.
    // S-34.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        loop {
            if let Poll::Ready(turn) = Pin::new(&mut self.ticket).poll(cx) {
                return Poll::Ready(Ended::Turn(turn));
            }
            // The ticket has this poll's waker by now, so a turn that comes from here on has this polled again.
            let next = self.limit.map_or(self.look_at, |limit| limit.min(self.look_at));
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(next)));
            ready!(timer.as_mut().poll(cx));
            self.timer = None;
            let now = Instant::now();
            if self.limit.is_some_and(|limit| now >= limit)
                && let Some(ended) = self.time_is_over(now)
            {
                return Poll::Ready(ended);
            }
            if now >= self.look_at
                && let Some(failed) = self.look(now)
            {
                return Poll::Ready(Ended::Turn(failed));
            }
        }
    }

    /// A lock is not called busy unless the store has said so since this wait began: it gets [`A_MOMENT`] for its answer.
    // S-33.
    fn time_is_over(&mut self, now: Instant) -> Option<Ended> {
        let more = match self.ticket.end_of_wait(self.is_late) {
            EndOfWait::Failing(error) => {
                return Some(Ended::Turn(Turn::Failed(LockError::Store(error))));
            }
            EndOfWait::Busy => return Some(Ended::TimedOut),
            EndOfWait::NextAnswer => A_MOMENT,
            // Its request, which may have begun just now, and what follows on the answer.
            EndOfWait::Asked => A_MOMENT * 2,
        };
        if std::mem::replace(&mut self.is_late, true) {
            return Some(Ended::Unanswered);
        }
        self.limit = Some(now + more);
        None
    }

    /// Passes over those that are not polled. Returns the end of the wait if the store has been failing for too long.
    fn look(&mut self, now: Instant) -> Option<Turn<OwnedHold>> {
        let engine = &self.request.spec.engine;
        // They renew and release what this waiter waits for, and may have ended with their runtime.
        engine.leases.revive(false);
        // What those before it were granted is released by their own futures as well, once these are polled; until then by this.
        self.ticket.look().into_iter().for_each(|owner| self.request.release_owner(owner));
        self.look_at = now + self.request.look_every();
        // The task that asks may go on for longer than this waiter's patience lasts (S-33).
        let (since, error) = engine.queues.failing(&self.request.spec.target)?;
        let enough = since.max(self.ticket.since()) + engine.leases.timing.store_patience;
        self.look_at = self.look_at.min(enough);
        (now >= enough).then_some(Turn::Failed(LockError::Store(error)))
    }

    /// Makes use of what [`poll`](Self::poll) has returned.
    pub(super) fn end(&self, ended: Ended) -> Tried {
        let Self { ticket, request, .. } = self;
        let waits_not = request.spec.options.get_wait() == Wait::None;
        let left = || request.holder_remaining();
        let error = match ended {
            Ended::Turn(Turn::Handed(owned)) => {
                let how = match owned.is_handed_over() {
                    true => AcquireOutcome::HandedOver,
                    false => AcquireOutcome::Acquired,
                };
                // From here on no task takes it back: the waiter is `Over`.
                match request.guard_on_handed(owned) {
                    Some(guard) => return Tried::Over(Ok((how, guard))),
                    // Lost on the way here.
                    None => return Tried::Again(Some(ticket.place()), None),
                }
            }
            Ended::Turn(Turn::Shared(kept)) => return Tried::Again(Some(ticket.place()), kept),
            Ended::Turn(Turn::Busy) if waits_not => request.busy(BusyReason::Held, left()),
            Ended::Turn(Turn::Busy) => request.timed_out(left()),
            Ended::Turn(Turn::Failed(LockError::Store(error))) => return Tried::Failed(error),
            Ended::Turn(Turn::Failed(error)) => error,
            Ended::Turn(Turn::Closed) => LockError::Closed,
            Ended::TimedOut => request.timed_out(left()),
            // The store may be slow, or the task that asks not polled.
            Ended::Unanswered if self.is_try => return Tried::Apart,
            Ended::Unanswered => request.unanswered(),
        };
        Tried::Over(Err(error))
    }
}
