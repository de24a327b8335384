//! What one request, or several of one owner, may have left in the store.

use std::sync::Arc;
use std::time::Duration;

use super::PendingAcquire;
use crate::gate::GateGuard;
use crate::lease::manager::LeaseManager;
use crate::lease::releaser::ReleaseJob;
use crate::observe::Label;
use crate::owned_hold::OwnedHold;
use crate::store::{HoldKind, OwnerId, Target};

/// The target as this owner knows it.
pub(super) fn known_as(target: &Arc<Target>, owner: &OwnerId) -> Arc<Target> {
    match target.kind() {
        HoldKind::Fair => Arc::new(target.for_waiter(owner)),
        _ => Arc::clone(target),
    }
}

/// What was sent on behalf of one owner and what is known of its effect. Cleaned up unsettled, it has
/// the releaser undo whatever took effect, and keeps the gate guard until that was sent: the next
/// in line must not run into our own leftover.
// S-21.
pub(super) struct Attempt<'a> {
    pending: &'a PendingAcquire,
    /// The contention's target, as this owner knows it.
    pub(super) target: Arc<Target>,
    pub(super) owner: OwnerId,
    pub(super) gate_guard: Option<GateGuard<OwnedHold>>,
    pub(super) in_flight: bool,
    /// A request's outcome is unknown, and it may take effect late.
    pub(super) unsettled: bool,
    /// The owner has something in the store that has to be given up: a place, or a lock that
    /// too few replicas know of.
    // S-17, S-31.
    pub(super) placed: bool,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(
        pending: &'a PendingAcquire,
        gate_guard: Option<GateGuard<OwnedHold>>,
    ) -> Self {
        let PendingAcquire { engine, target, permits, .. } = pending;
        let owner = engine.next_owner(*permits);
        let owner = match pending.inside(|inside| inside.hold().owner.clone()) {
            Some(writer) => owner.within(&writer),
            None => owner,
        };
        let target = known_as(target, &owner);
        Self {
            pending,
            target,
            owner,
            gate_guard,
            in_flight: false,
            unsettled: false,
            placed: false,
        }
    }

    /// Gives back what was taken for this owner and goes on as another.
    pub(super) fn start_over(&mut self) {
        self.give_back(self.unsettled, None);
        let gate_guard = self.gate_guard.take();
        *self = Self::new(self.pending, gate_guard);
    }

    /// Has what may have taken effect undone, and lets go of the gate guard.
    pub(super) fn clean_up(&mut self) {
        let gate_guard = self.gate_guard.take();
        if self.in_flight || self.unsettled || self.placed {
            if let Some(gate_guard) = &gate_guard {
                gate_guard.leaving();
            }
            // Side by side nobody comes next, so nobody can run into the leftover.
            let gate_guard = gate_guard.filter(|_| self.target.kind() != HoldKind::Fair);
            self.give_back(self.in_flight || self.unsettled, gate_guard);
        }
    }

    /// The owner has a place in the store from the next request on. If its future is then not polled, the
    /// contenders beside it give that up.
    // S-34.
    pub(super) fn keep_place(&mut self) {
        if std::mem::replace(&mut self.placed, true) {
            return;
        }
        let Some(gate_guard) = self.gate_guard.as_ref().filter(|gate_guard| gate_guard.is_beside())
        else {
            return;
        };
        let leases = Arc::clone(&self.pending.engine.leases);
        let (target, owner, lasts) = (Arc::clone(&self.target), self.owner.clone(), self.lasts());
        let label = self.pending.recorder.label().clone();
        // A request of the sleeper may be under way.
        gate_guard.keep_place(move || give_back(&leases, target, owner, label, lasts, true, None));
    }

    /// Records the owner id of the request that goes out. If the future is then not polled, the waiters that
    /// pass it over release what that owner was granted.
    pub(super) fn asks(&self) {
        if let Some(gate_guard) = &self.gate_guard {
            gate_guard.asks_as(&self.owner);
        }
        self.pending.inside(|inside| {
            let leases = Arc::clone(&self.pending.engine.leases);
            let (target, owner, lasts) =
                (Arc::clone(&self.target), self.owner.clone(), self.lasts());
            let label = self.pending.recorder.label().clone();
            inside.on_passed_over(move || {
                give_back(&leases, target, owner, label, lasts, true, None)
            });
        });
    }

    /// How long the store keeps what this owner may have there without another word: a hold for its lease, a
    /// place for its own, which may be the longer one.
    fn lasts(&self) -> Duration {
        let PendingAcquire { engine, options, .. } = self.pending;
        let lease = options.stored_lease().duration();
        match self.target.kind().has_places() {
            true => lease.max(engine.leases.timing.waiter_lease),
            false => lease,
        }
    }

    fn give_back(&self, unsettled: bool, gate_guard: Option<GateGuard<OwnedHold>>) {
        let leases = &self.pending.engine.leases;
        let (target, owner) = (Arc::clone(&self.target), self.owner.clone());
        let label = self.pending.recorder.label().clone();
        give_back(leases, target, owner, label, self.lasts(), unsettled, gate_guard);
    }
}

impl PendingAcquire {
    /// Gives back what a contender of the same lock may have been granted while it was not polled.
    // S-34.
    pub(super) fn give_back_of(&self, owner: OwnerId) {
        let lease = self.options.stored_lease().duration();
        let (target, label) = (Arc::clone(&self.target), self.recorder.label().clone());
        give_back(&self.engine.leases, target, owner, label, lease, true, None);
    }
}

/// Has the releaser undo what an owner that nobody has become may have in the store.
fn give_back(
    leases: &LeaseManager,
    target: Arc<Target>,
    owner: OwnerId,
    label: Label,
    lasts: Duration,
    unsettled: bool,
    gate_guard: Option<GateGuard<OwnedHold>>,
) {
    leases.give(ReleaseJob {
        target,
        owner,
        // Nobody had it.
        keep_until: None,
        until: leases.clock.now().after(lasts),
        unsettled,
        repeated: false,
        label,
        meter: None,
        after: gate_guard.map(|gate_guard| Box::new(move |_| drop(gate_guard)) as _),
    });
}
