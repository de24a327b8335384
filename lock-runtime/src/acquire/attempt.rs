//! The state that one request, or several of one owner, may have left in the store.

use std::sync::Arc;
use std::time::Duration;

use super::request::Request;
use crate::lease::manager::LeaseManager;
use crate::lease::releaser::ReleaseJob;
use crate::observe::Label;
use crate::owned_hold::OwnedHold;
use crate::queue::Seat;
use crate::store::{HoldKind, OwnerId, Target, unsent};

/// Returns the target as this owner knows it.
pub(super) fn known_as(target: &Arc<Target>, owner: &OwnerId) -> Arc<Target> {
    match target.kind() {
        HoldKind::Fair => Arc::new(target.for_waiter(owner)),
        _ => Arc::clone(target),
    }
}

/// The requests sent for one owner, and what is known of their effect. If it is cleaned up unsettled, the
/// releaser undoes whatever took effect, and the seat is kept until the undoing request was sent: the
/// next waiter must not find leftovers of this process.
// S-21.
// | `in_flight` | `unsettled` | `placed` | what the store may have of its owner | `clean_up` |
// |---|---|---|---|---|
// | no | no | no | nothing, or a hold that an owned hold releases | drops the seat |
// | yes | any | any | a hold or a place, now or late, unless it was never sent | a release, and one more later; then drops the seat |
// | no | yes | any | the same: an answer has not come | the same |
// | no | no | yes | a place, or a hold that too few replicas know of | a release; then drops the seat |
pub(super) struct Attempt {
    /// The contention's target, as this owner knows it.
    pub(super) target: Arc<Target>,
    pub(super) owner: OwnerId,
    /// Of no key once it was taken out.
    pub(super) seat: Seat<OwnedHold>,
    in_flight: bool,
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
    pub(super) fn new(request: &Request, seat: Seat<OwnedHold>) -> Self {
        let owner = request.next_owner();
        let owner = match &request.inside {
            Some(inside) => owner.within(&inside.hold.owner),
            None => owner,
        };
        Self::of(request, owner, seat)
    }

    /// An attempt of that owner.
    pub(super) fn of(request: &Request, owner: OwnerId, seat: Seat<OwnedHold>) -> Self {
        let target = known_as(&request.spec.target, &owner);
        let (in_flight, unsettled, placed, is_placing) = (false, false, false, false);
        Self { target, owner, seat, in_flight, unsettled, placed, is_placing }
    }

    /// Releases everything that was granted to this owner and continues with a new owner id.
    pub(super) fn start_over(&mut self, request: &Request) {
        // The seat stays here, so no other task of this process asks in between. The next request is another owner's: it
        // follows the release on the connection, or is refused and asks again.
        self.leftover(request).release(self.unsettled, None);
        *self = Self::new(request, self.take_seat());
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

    pub(super) fn take_seat(&mut self) -> Seat<OwnedHold> {
        std::mem::replace(&mut self.seat, Seat::none())
    }

    /// Has what may have taken effect undone, and drops the seat.
    pub(super) fn clean_up(&mut self, request: &Request) {
        // Called by drops, so nothing is awaited: the releaser has the rest.
        let seat = self.take_seat();
        // The future of that request was dropped just before.
        if self.in_flight && unsent::was_dropped_unsent(&self.owner) {
            self.ends(false);
        }
        if self.in_flight || self.unsettled || self.placed {
            // Callers that come meanwhile wait for the release. They pass over it, should it take long.
            seat.leaving();
            // A fair lock has no queue here, so no waiter needs the seat back.
            let seat = (self.target.kind() != HoldKind::Fair).then_some(seat);
            self.leftover(request).release(self.in_flight || self.unsettled, seat);
        }
    }

    /// A request is sent from here on.
    pub(super) fn begins(&mut self) {
        // Before the request's first poll: a drop between the two releases an owner that has nothing, which does no harm.
        self.in_flight = true;
    }

    /// The request has ended, and may have run or not. One that did not has left no place in the store.
    pub(super) fn ends(&mut self, may_have_run: bool) {
        self.in_flight = false;
        let is_placing = std::mem::take(&mut self.is_placing);
        self.placed &= may_have_run || !is_placing;
    }

    /// From the next request on, the owner has a place in the store.
    pub(super) fn keep_place(&mut self) {
        if !std::mem::replace(&mut self.placed, true) {
            self.is_placing = true;
            self.seat.keeps_place(&self.owner);
        }
    }

    /// Records the owner id of the next request. If the caller is then not polled, the waiters that pass it over release what
    /// that owner was granted.
    pub(super) fn asks(&self) {
        self.seat.asks_as(&self.owner);
    }

    fn leftover(&self, request: &Request) -> Leftover {
        request.leftover(&self.target, self.owner.clone())
    }
}

impl Request {
    pub(super) fn leftover(&self, target: &Arc<Target>, owner: OwnerId) -> Leftover {
        let leases = Arc::clone(&self.spec.engine.leases);
        let lease = self.spec.options.stored_lease().duration();
        // A place may last longer than a hold.
        let lasts = match target.kind().has_places() {
            true => lease.max(leases.timing.waiter_lease),
            false => lease,
        };
        let (target, label) = (Arc::clone(target), self.label.clone());
        Leftover { leases, target, owner, label, lasts }
    }
}

/// What an owner without a guard may still have in the store.
pub(super) struct Leftover {
    leases: Arc<LeaseManager>,
    target: Arc<Target>,
    owner: OwnerId,
    label: Label,
    /// How long the store keeps it without another request.
    lasts: Duration,
}

impl Leftover {
    /// Has the releaser undo it, and then drops the seat.
    pub(super) fn release(self, unsettled: bool, seat: Option<Seat<OwnedHold>>) {
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
            // With the first answer, or the first failure: the next waiter then asks, behind the release on the connection.
            after: seat.map(|seat| Box::new(move |_| drop(seat)) as _),
        });
    }
}
