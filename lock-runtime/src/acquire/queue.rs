//! Queueing at the gate, before the store is asked.
// S-14.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::runtime::Id;
use tokio::time::{Instant, timeout_at};

use super::PendingAcquire;
use super::waiting::A_MOMENT;
use crate::error::{BusyReason, LockError};
use crate::gate::{Admission, GateGuard, Ticket, Turn, WaitsFor};
use crate::options::Wait;
use crate::owned_hold::OwnedHold;
use crate::store::HoldKind;
use crate::timer::{Timer, attended};

impl PendingAcquire {
    /// Waits for the turn that an admission leads to, and records the place in the queue.
    #[expect(clippy::manual_async_fn, reason = "an async function would keep its arguments twice")]
    pub(super) fn turn_after(
        &self,
        admission: Admission<OwnedHold>,
        limit: Option<Instant>,
        place: &mut Option<u64>,
    ) -> impl Future<Output = Result<Turn<OwnedHold>, LockError>> + Send {
        async move {
            // What is rare is boxed, and the queue is waited in after the match: a waiter has no room for more.
            let ticket = match admission {
                Admission::Queued(ticket) => ticket,
                Admission::Turn(gate_guard) => return Ok(Turn::Contend(gate_guard)),
                other => match Box::pin(self.admitted(other, *place)).await? {
                    Ok(ticket) => ticket,
                    Err(turn) => return Ok(turn),
                },
            };
            self.recorder.waits();
            *place = Some(ticket.place());
            let mut in_queue = InQueue::new(self, ticket, limit);
            let turn = poll_fn(|cx| in_queue.poll(self, cx)).await;
            // Its place is given up first: the turn that may come there is for the next.
            drop(in_queue);
            match turn {
                Some(turn) => Ok(turn),
                None => Box::pin(self.timed_out_in_queue()).await,
            }
        }
    }

    /// The place in the queue that an admission leads to, or the turn.
    async fn admitted(
        &self,
        mut admission: Admission<OwnedHold>,
        place: Option<u64>,
    ) -> Result<Result<Ticket<OwnedHold>, Turn<OwnedHold>>, LockError> {
        let enough = Instant::now() + A_MOMENT;
        loop {
            return match admission {
                Admission::Turn(gate_guard) => Ok(Err(Turn::Contend(gate_guard))),
                Admission::Busy(reason) => Err(self.busy(reason, None)),
                Admission::Failing(error) => Err(LockError::Store(error)),
                Admission::Closed => Err(LockError::Closed),
                Admission::Unknown(answer) => match timeout_at(enough, answer).await {
                    Ok(Ok(Ok(()))) => Err(self.busy(BusyReason::Held, None)),
                    Ok(Ok(Err(error))) => Err(LockError::Store(error)),
                    // The gate is free.
                    Ok(Err(_)) => {
                        admission = self.enter(place, Instant::now);
                        continue;
                    }
                    // The contender may not be polled (S-34), or the store may be slow: ask the store without
                    // the gate.
                    Err(_) => Ok(Err(Turn::Contend(GateGuard::apart()))),
                },
                Admission::Queued(ticket) => Ok(Ok(ticket)),
            };
        }
    }

    /// Enters the gate, at its earlier `place` if it has one.
    pub(super) fn enter(
        &self,
        place: Option<u64>,
        now: impl FnOnce() -> Instant,
    ) -> Admission<OwnedHold> {
        let (gates, options) = (&self.spec.engine.gates, &self.spec.options);
        if self.is_inside() {
            // The holder of the gate waits for the writer, which is this caller.
            return Admission::Turn(GateGuard::apart());
        }
        let may_wait = options.get_wait() != Wait::None;
        let waits_for = match (may_wait, self.recorder.label().is_enforced()) {
            (true, _) => WaitsFor::Turn,
            (false, true) => WaitsFor::Release,
            (false, false) => WaitsFor::Nothing,
        };
        match self.spec.target.kind() {
            // A reader does not block this caller, and only the store knows whether a writer does.
            HoldKind::Read if !may_wait => Admission::Turn(GateGuard::apart()),
            // Its queue is in the store, for all processes; a local one would be a second one (S-26).
            HoldKind::Fair => {
                gates.enter_unqueued(&self.spec.target, options.get_max_waiters(), place.is_some())
            }
            // Each reader has its own hold and place. In a queue, only the first would wait in the store, and
            // one reader would get the lock after each write (S-27).
            HoldKind::Read if !self.shares() => {
                gates.enter_unqueued(&self.spec.target, options.get_max_waiters(), place.is_some())
            }
            // A contender inside the gate may not get these, or not all of them: only the store knows.
            HoldKind::Latch if !may_wait => Admission::Turn(GateGuard::apart()),
            _ if !may_wait && self.spec.target.is_shared() => Admission::Turn(GateGuard::apart()),
            _ => {
                let most = options.get_max_waiters();
                // A hold that is handed on keeps the store's lease of the hold before.
                let newcomer = || (self.asker(), now());
                gates.enter(
                    &self.spec.target,
                    options.stored_lease(),
                    most,
                    waits_for,
                    place,
                    newcomer,
                )
            }
        }
    }
}

/// A wait in the queue.
pub(super) struct InQueue {
    ticket: Ticket<OwnedHold>,
    /// When it ends without a turn.
    limit: Option<Instant>,
    /// When to check next that the task in front is polled.
    look_at: Instant,
    timer: Option<Timer>,
}

impl InQueue {
    pub(super) fn new(
        pending: &PendingAcquire,
        ticket: Ticket<OwnedHold>,
        limit: Option<Instant>,
    ) -> Self {
        let look_at = ticket.since() + pending.look_every();
        Self { ticket, limit, look_at, timer: None }
    }

    /// A wait that need not be polled before its task is woken: its timer wakes the task, and so does the turn, since the
    /// waiter has queued with the waker of the task. `runtime` is the one that the caller is in.
    ///
    /// # Errors
    ///
    /// The ticket, if the wait is over already.
    pub(super) fn registered(
        runtime: Id,
        cx: &mut Context<'_>,
        pending: &PendingAcquire,
        ticket: Ticket<OwnedHold>,
    ) -> Result<Self, Ticket<OwnedHold>> {
        let mut in_queue = Self::new(pending, ticket, pending.limit());
        let mut timer = Timer::on(runtime, in_queue.next_look(), cx);
        if timer.poll(cx).is_ready() {
            return Err(in_queue.ticket);
        }
        in_queue.timer = Some(timer);
        attended();
        Ok(in_queue)
    }

    pub(super) fn place(&self) -> u64 {
        self.ticket.place()
    }

    /// Waits for the turn, and checks regularly that the task in front is polled. `None` if the turn has not come by the
    /// limit.
    // S-34.
    pub(super) fn poll(
        &mut self,
        pending: &PendingAcquire,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Turn<OwnedHold>>> {
        loop {
            if let Poll::Ready(turn) = Pin::new(&mut self.ticket).poll(cx) {
                return Poll::Ready(Some(turn));
            }
            let next_look = self.next_look();
            ready!(self.timer.get_or_insert_with(|| Timer::at(next_look, cx)).poll(cx));
            self.timer = None;
            let now = Instant::now();
            if self.limit.is_some_and(|limit| now >= limit) {
                return Poll::Ready(None);
            }
            if let Some(failed) = self.look(pending, now) {
                return Poll::Ready(Some(failed));
            }
        }
    }

    fn next_look(&self) -> Instant {
        self.limit.map_or(self.look_at, |limit| limit.min(self.look_at))
    }

    /// Passes over a task in front that is not polled. Returns the end of the wait if the store has been failing for too
    /// long.
    fn look(&mut self, pending: &PendingAcquire, now: Instant) -> Option<Turn<OwnedHold>> {
        let engine = &pending.spec.engine;
        // They renew and release what this waiter waits for, and may have ended with their runtime.
        engine.leases.revive(false, false);
        if let Some(owner) = self.ticket.look() {
            pending.release_owner(owner);
        }
        self.look_at = now + pending.look_every();
        // The contender may keep asking for longer than this waiter's patience lasts (S-33).
        let (since, error) = engine.gates.failing(&pending.spec.target)?;
        let enough = since.max(self.ticket.since()) + engine.leases.timing.store_patience;
        self.look_at = self.look_at.min(enough);
        (now >= enough).then_some(Turn::Failed(error))
    }
}
