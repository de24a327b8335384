//! Queueing at the gate, before the store is asked.
// S-14.

use tokio::time::{Instant, timeout_at};

use super::PendingAcquire;
use super::waiting::A_MOMENT;
use crate::error::{BusyReason, LockError};
use crate::gate::{Admission, GateGuard, Ticket, Turn, WaitsFor};
use crate::options::Wait;
use crate::owned_hold::OwnedHold;
use crate::store::HoldKind;
use crate::timer::before;

impl PendingAcquire {
    /// Enters the gate, at its earlier `place` if it has one, and waits there for its turn. `is_new` if the acquire has
    /// just started.
    #[expect(clippy::manual_async_fn, reason = "an async function would keep its arguments twice")]
    pub(super) fn enter_queue(
        &self,
        limit: Option<Instant>,
        place: &mut Option<u64>,
        is_new: bool,
    ) -> impl Future<Output = Result<Turn<OwnedHold>, LockError>> + Send {
        async move {
            // What is rare is boxed, and the queue is waited in after the match: a waiter has no room for more.
            let ticket = match self.enter(*place, is_new) {
                Admission::Queued(ticket) => ticket,
                Admission::Turn(gate_guard) => return Ok(Turn::Contend(gate_guard)),
                other => match Box::pin(self.admitted(other, *place)).await? {
                    Ok(ticket) => ticket,
                    Err(turn) => return Ok(turn),
                },
            };
            self.recorder.waits();
            *place = Some(ticket.place());
            match self.wait_in_queue(ticket, limit).await {
                Some(turn) => Ok(turn),
                None => Err(Box::pin(self.timed_out_in_queue()).await),
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
                        admission = self.enter(place, false);
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

    fn enter(&self, place: Option<u64>, is_new: bool) -> Admission<OwnedHold> {
        let (gates, options) = (&self.spec.engine.gates, &self.spec.options);
        if self.is_inside() {
            // The holder of the gate waits for the writer, which is this caller.
            return Admission::Turn(GateGuard::apart());
        }
        let may_wait = options.wait() != Wait::Never;
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
                gates.enter_unqueued(&self.spec.target, options.max_waiters(), place.is_some())
            }
            // Each reader has its own hold and place. In a queue, only the first would wait in the store, and
            // one reader would get the lock after each write (S-27).
            HoldKind::Read if !self.shares() => {
                gates.enter_unqueued(&self.spec.target, options.max_waiters(), place.is_some())
            }
            // A contender inside the gate may not get these, or not all of them: only the store knows.
            HoldKind::Latch if !may_wait => Admission::Turn(GateGuard::apart()),
            _ if !may_wait && self.spec.target.is_shared() => Admission::Turn(GateGuard::apart()),
            _ => {
                let most = options.max_waiters();
                // A hold that is handed on keeps the store's lease of the hold before.
                let newcomer =
                    || (self.asker(), if is_new { self.started } else { Instant::now() });
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

    /// Waits for the turn, and checks regularly that the task in front is polled. Returns `None` if the turn
    /// has not come by `limit`.
    // S-34.
    #[expect(clippy::manual_async_fn, reason = "an async function would keep its arguments twice")]
    fn wait_in_queue(
        &self,
        mut ticket: Ticket<OwnedHold>,
        limit: Option<Instant>,
    ) -> impl Future<Output = Option<Turn<OwnedHold>>> + Send {
        async move {
            let mut look_at = ticket.since() + self.look_every();
            loop {
                let until = limit.map_or(look_at, |limit| limit.min(look_at));
                if let Some(turn) = before(until, &mut ticket).await {
                    return Some(turn);
                }
                if limit.is_some_and(|limit| Instant::now() >= limit) {
                    return None;
                }
                // They renew and release what this waiter waits for, and may have ended with their runtime.
                self.spec.engine.leases.ensure_running();
                if let Some(owner) = ticket.look() {
                    self.release_owner(owner);
                }
                look_at = Instant::now() + self.look_every();
                // The contender may keep asking for longer than this waiter's patience lasts (S-33).
                if let Some((since, error)) = self.spec.engine.gates.failing(&self.spec.target) {
                    let patience = self.spec.engine.leases.timing.store_patience;
                    let enough = since.max(ticket.since()) + patience;
                    if Instant::now() >= enough {
                        return Some(Turn::Failed(error));
                    }
                    look_at = look_at.min(enough);
                }
            }
        }
    }
}
