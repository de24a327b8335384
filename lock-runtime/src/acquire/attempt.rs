//! The state that one request, or several of one owner, may have left in the store.

use std::sync::Arc;
use std::time::Duration;

use super::PendingAcquire;
use crate::gate::GateGuard;
use crate::lease::manager::LeaseManager;
use crate::lease::releaser::ReleaseJob;
use crate::observe::Label;
use crate::owned_hold::OwnedHold;
use crate::store::{HoldKind, HoldNumber, OwnerId, Target, unsent};

/// Returns the target as this owner knows it.
pub(super) fn known_as(target: &Arc<Target>, owner: &OwnerId) -> Arc<Target> {
    match target.kind() {
        HoldKind::Fair => Arc::new(target.for_waiter(owner)),
        _ => Arc::clone(target),
    }
}

/// The requests sent for one owner, and what is known of their effect. If it is cleaned up unsettled, the
/// releaser undoes whatever took effect, and the gate guard is kept until the undoing request was sent: the
/// next waiter must not find leftovers of this process.
// S-21.
pub(super) struct Attempt {
    /// The contention's target, as this owner knows it.
    pub(super) target: Arc<Target>,
    pub(super) owner: OwnerId,
    /// Registered with no gate once it was taken out.
    pub(super) gate_guard: GateGuard<OwnedHold>,
    pub(super) in_flight: bool,
    /// A request's outcome is unknown, and it may take effect late.
    pub(super) unsettled: bool,
    /// The owner has something in the store that must be given up: a place, or a lock that too few replicas
    /// know of.
    // S-17, S-31.
    pub(super) placed: bool,
    /// True if only the request under way may have put it there.
    is_placing: bool,
}

impl Attempt {
    pub(super) fn new(pending: &PendingAcquire, gate_guard: GateGuard<OwnedHold>) -> Self {
        let owner = pending.next_owner();
        let owner = match pending.inside(|inside| inside.hold.owner.clone()) {
            Some(writer) => owner.within(&writer),
            None => owner,
        };
        Self::of(pending, owner, gate_guard)
    }

    /// An attempt of that owner.
    pub(super) fn of(
        pending: &PendingAcquire,
        owner: OwnerId,
        gate_guard: GateGuard<OwnedHold>,
    ) -> Self {
        let target = known_as(&pending.spec.target, &owner);
        let (in_flight, unsettled, placed, is_placing) = (false, false, false, false);
        Self { target, owner, gate_guard, in_flight, unsettled, placed, is_placing }
    }

    /// Releases everything that was granted to this owner and continues with a new owner id.
    pub(super) fn start_over(&mut self, pending: &PendingAcquire) {
        self.leftover(pending).release(self.unsettled, None);
        self.go_on_as_another(pending);
    }

    /// Continues with a new owner id; nothing is left of this one.
    pub(super) fn go_on_as_another(&mut self, pending: &PendingAcquire) {
        *self = Self::new(pending, self.take_gate_guard());
    }

    /// Its notifications come from clients of Redisson too, on another channel. False if that was known.
    // S-26.
    pub(super) fn is_behind_redisson(&mut self) -> bool {
        let is_new = self.target.own_channel().is_none();
        if is_new {
            self.target = Arc::new(self.target.for_waiter_behind_redisson(&self.owner));
        }
        is_new
    }

    pub(super) fn take_gate_guard(&mut self) -> GateGuard<OwnedHold> {
        std::mem::replace(&mut self.gate_guard, GateGuard::apart())
    }

    /// Has what may have taken effect undone, and drops the gate guard.
    pub(super) fn clean_up(&mut self, pending: &PendingAcquire) {
        let gate_guard = self.take_gate_guard();
        // The future of that request was dropped just before.
        if self.in_flight && unsent::was_dropped_unsent(&self.owner) {
            self.ends(false);
        }
        if self.in_flight || self.unsettled || self.placed {
            gate_guard.leaving();
            // Unqueued contenders have no successor that could find the leftover.
            let gate_guard = (self.target.kind() != HoldKind::Fair).then_some(gate_guard);
            self.leftover(pending).release(self.in_flight || self.unsettled, gate_guard);
        }
    }

    /// A request is sent from here on.
    pub(super) fn begins(&mut self) {
        self.in_flight = true;
    }

    /// The request has ended, and may have run or not. One that did not has left no place in the store.
    pub(super) fn ends(&mut self, may_have_run: bool) {
        self.in_flight = false;
        let is_placing = std::mem::take(&mut self.is_placing);
        self.placed &= may_have_run || !is_placing;
    }

    /// From the next request on, the owner has a place in the store. If its future is then not polled, the
    /// other unqueued contenders give that place up.
    // S-34.
    pub(super) fn keep_place(&mut self, pending: &PendingAcquire) {
        if std::mem::replace(&mut self.placed, true) {
            return;
        }
        self.is_placing = true;
        if self.gate_guard.is_unqueued() {
            let leftover = self.leftover(pending);
            // A request of the contender that is not polled may be under way.
            self.gate_guard.keep_place(&self.owner, move || leftover.release(true, None));
        }
    }

    /// Records the owner id of the next request. If the future is then not polled, the waiters that pass it
    /// over release what that owner was granted.
    pub(super) fn asks(&self) {
        self.gate_guard.asks_as(&self.owner);
    }

    fn leftover(&self, pending: &PendingAcquire) -> Leftover {
        pending.leftover(&self.target, self.owner.clone())
    }
}

impl PendingAcquire {
    pub(super) fn next_owner(&self) -> OwnerId {
        self.spec.engine.leases.next_owner(self.permits)
    }

    /// Releases what a contender of the same lock may have been granted while it was not polled.
    // S-34.
    pub(super) fn release_owner(&self, asked: HoldNumber) {
        self.leftover(&self.spec.target, self.spec.engine.leases.owner(asked)).release(true, None);
    }

    fn leftover(&self, target: &Arc<Target>, owner: OwnerId) -> Leftover {
        let leases = Arc::clone(&self.spec.engine.leases);
        let lease = self.spec.options.stored_lease().duration();
        // A place may last longer than a hold.
        let lasts = match target.kind().has_places() {
            true => lease.max(leases.timing.waiter_lease),
            false => lease,
        };
        let (target, label) = (Arc::clone(target), self.recorder.label().clone());
        Leftover { leases, target, owner, label, lasts }
    }
}

/// What an owner without a guard may still have in the store.
struct Leftover {
    leases: Arc<LeaseManager>,
    target: Arc<Target>,
    owner: OwnerId,
    label: Label,
    /// How long the store keeps it without another request.
    lasts: Duration,
}

impl Leftover {
    /// Has the releaser undo it, and then drops the gate guard.
    fn release(self, unsettled: bool, gate_guard: Option<GateGuard<OwnedHold>>) {
        let Self { leases, target, owner, label, lasts } = self;
        leases.give(ReleaseJob {
            target,
            owner,
            // No task held it.
            keep_until: None,
            until: leases.clock.now().after(lasts),
            unsettled,
            repeated: false,
            label,
            meter: None,
            after: gate_guard.map(|gate_guard| Box::new(move |_| drop(gate_guard)) as _),
        });
    }
}
