//! The usual acquire of a busy lock: it waits in the queue of its process until it is handed the hold.
//!
//! Most tasks of a crowd only wait, so this acquire has no room for a request to the store. If its turn needs one, it
//! goes on as a larger future.
// S-14, S-34.

use std::task::{Context, Poll};

use tokio::runtime::Id;

use super::long_wait::LongWait;
use super::pending::PendingAcquire;
use super::queue::InQueue;
use super::{Acquiring, got};
use crate::error::LockError;
use crate::gate::{Admission, Turn};
use crate::guard::LockGuard;
use crate::observe::AcquireOutcome;
use crate::options::Wait;
use crate::owned_hold::OwnedHold;
use crate::store::HoldKind;

/// An acquire that waits in the queue.
pub(super) struct QueuedAcquire {
    // The first field: its place is given up before the end is recorded.
    in_queue: InQueue,
    pending: PendingAcquire,
    long: LongWait,
}

impl PendingAcquire {
    /// True if an outermost acquire enters the gate at once and may wait there.
    pub(super) fn queues_at_once(&self) -> bool {
        let kind = self.spec.target.kind();
        matches!(kind, HoldKind::Mutex | HoldKind::Write | HoldKind::Multi)
            && self.spec.options.get_wait() != Wait::None
    }

    /// Goes on after an admission that does not let it wait here.
    async fn run_admitted(self, admission: Admission<OwnedHold>) -> Result<LockGuard, LockError> {
        let (limit, mut place) = (self.limit(), None);
        let taking = async {
            let turn = self.turn_after(admission, limit, &mut place).await?;
            self.take_hold_at(limit, place, Some(turn)).await
        };
        let taken = self.log_if_long(taking).await;
        self.report(taken)
    }

    /// Goes on at a place in the queue, with the turn that it may have had there.
    async fn run_from(
        self,
        place: u64,
        turn: Option<Turn<OwnedHold>>,
        long: LongWait,
    ) -> Result<LockGuard, LockError> {
        let taking = self.take_hold_at(self.limit(), Some(place), turn);
        let taken = self.log_if_longer(long, taking).await;
        self.report(taken)
    }

    /// Ends a wait at a place in the queue.
    async fn run_out_of_time(self, place: u64, long: LongWait) -> Result<LockGuard, LockError> {
        match self.timed_out_in_queue().await {
            Ok(turn) => self.run_from(place, Some(turn), long).await,
            Err(error) => self.report(Err(error)),
        }
    }
}

impl QueuedAcquire {
    /// Waits in the queue, if this is what the gate has answered to an acquire that has just started. Its turn wakes the
    /// task.
    #[inline]
    pub(super) fn new(
        runtime: Id,
        cx: &mut Context<'_>,
        pending: PendingAcquire,
        admission: Admission<OwnedHold>,
    ) -> Result<Box<Self>, Acquiring> {
        let ticket = match admission {
            Admission::Queued(ticket) => ticket,
            other => return Err(Acquiring::new(pending.run_admitted(other))),
        };
        let in_queue = match InQueue::registered(runtime, cx, &pending, ticket) {
            Ok(in_queue) => in_queue,
            // The time to wait is over.
            Err(ticket) => {
                return Err(Acquiring::new(pending.run_admitted(Admission::Queued(ticket))));
            }
        };
        pending.recorder.waits();
        Ok(Box::new(Self { in_queue, pending, long: LongWait::Waits }))
    }

    /// Waits for the turn: `None` if it has not come in time.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Turn<OwnedHold>>> {
        let polled = self.in_queue.poll(&self.pending, cx);
        if polled.is_pending() {
            self.long.look(&self.pending);
        }
        polled
    }

    /// Makes use of what [`poll`](Self::poll) has returned. What was handed over is taken where this is: moving it would be
    /// much of the time.
    pub(super) fn end(
        self: Box<Self>,
        turn: Option<Turn<OwnedHold>>,
    ) -> Result<LockGuard, Acquiring> {
        let turn = match turn {
            Some(Turn::Handed(owned)) => match self.pending.guard_on_handed(owned) {
                Some(mut guard) => {
                    got(&self.pending.recorder, AcquireOutcome::HandedOver, &mut guard);
                    return Ok(guard);
                }
                // Lost on the way here; queue again.
                None => Some(None),
            },
            turn => turn.map(Some),
        };
        let Self { in_queue, pending, long } = *self;
        match turn {
            None => Err(Acquiring::new(pending.run_out_of_time(in_queue.place(), long))),
            Some(turn) => Err(Acquiring::new(pending.run_from(in_queue.place(), turn, long))),
        }
    }
}
