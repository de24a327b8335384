//! Unqueued contenders: their queue is in the store, and a gate only counts them.
//!
//! For each of them that has a place in that queue, the gate has a callback that gives the place up, so that a
//! contender that is not polled does not delay the others.
// S-18, S-26, S-34.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;

use super::{Admission, Gate, GateGuard, Gates, OthersFirst};
use crate::error::BusyReason;
use crate::liveness::is_asleep;
use crate::store::Target;

/// What a gate knows of turns that it does not give.
#[derive(Default)]
pub(super) struct Elsewhere {
    /// The head start of other processes, if they waited when the last hold was released.
    pub(super) others_first: Option<OthersFirst>,
    /// Number of unqueued contenders, whose queue is in the store.
    // S-26.
    unqueued: usize,
    /// Places of unqueued contenders in the store's queue, in its order.
    places: BTreeMap<u64, Place>,
}

/// A place in the store's queue.
pub(super) struct Place {
    /// When its contender last gave a sign of life.
    polled_at: Instant,
    /// Empty once the place was given up and its contender passed over.
    give_up: Option<GiveUp>,
}

type GiveUp = Box<dyn FnOnce() + Send>;

impl<H> Gates<H> {
    /// Admits a contender that queues in the store and not here, if there is room or it was already admitted.
    // S-18.
    pub(crate) fn enter_unqueued(
        self: &Arc<Self>,
        target: &Arc<Target>,
        max: usize,
        is_admitted: bool,
    ) -> Admission<H> {
        let mut shard = self.shard(target);
        if self.closed.load(Ordering::SeqCst) {
            return Admission::Closed;
        }
        let others = shard.gates.get(&**target).map_or(0, Gate::unqueued);
        // As with a gate guard, one of them counts as contending and the others as waiting.
        if others > 0 {
            let full = others > max || self.waiting.load(Ordering::Relaxed) >= self.max_waiting;
            if full && !is_admitted {
                return Admission::Busy(BusyReason::TooManyWaiters);
            }
            self.waiting.fetch_add(1, Ordering::Relaxed);
        }
        let number = shard.next_number();
        let gate = shard.gates.entry(Arc::clone(target)).or_insert_with(Gate::free);
        gate.elsewhere().unqueued += 1;
        Admission::Turn(GateGuard::unqueued(Arc::clone(self), Arc::clone(target), number))
    }

    pub(super) fn leave_unqueued(&self, target: &Target, gate_guard: u64) {
        let _place = {
            let mut shard = self.shard(target);
            let Some(gate) = shard.gates.get_mut(target) else { return };
            let place = gate.remove_place(gate_guard);
            // A gate that has an unqueued contender is kept, so the gate that a contender leaves counts at
            // least one.
            debug_assert!(gate.unqueued() > 0, "a contender leaves a gate that did not count it");
            let left = gate.unqueued().saturating_sub(1);
            gate.elsewhere().unqueued = left;
            if left > 0 {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
            } else if gate.is_free() {
                shard.gates.remove(target);
            }
            place
        };
    }

    /// Records a sign of life of the contender with this gate guard, and checks the contenders before it in the
    /// store's queue. False if its own place was given up.
    pub(super) fn contends_unqueued(&self, target: &Target, gate_guard: u64, now: Instant) -> bool {
        let mut asleep = Vec::new();
        let lives = {
            let mut shard = self.shard(target);
            let Some(gate) = shard.gates.get_mut(target) else { return false };
            let Some(Elsewhere { places, .. }) = gate.elsewhere.as_deref_mut() else { return true };
            let Some(place) = places.get_mut(&gate_guard) else { return true };
            place.polled_at = now;
            let lives = place.give_up.is_some();
            for (_, place) in places.range_mut(..gate_guard) {
                if place.give_up.is_some() && !is_asleep(place.polled_at, now) {
                    break;
                }
                asleep.extend(place.give_up.take());
            }
            lives
        };
        asleep.into_iter().for_each(|give_up| give_up());
        lives
    }
}

impl<H> Gate<H> {
    pub(super) fn elsewhere(&mut self) -> &mut Elsewhere {
        self.elsewhere.get_or_insert_default()
    }

    pub(super) fn others_first(&self) -> Option<OthersFirst> {
        self.elsewhere.as_ref()?.others_first
    }

    pub(super) fn unqueued(&self) -> usize {
        self.elsewhere.as_ref().map_or(0, |elsewhere| elsewhere.unqueued)
    }

    /// The place of an unqueued contender in the store's queue.
    fn place(&self, gate_guard: u64) -> Option<&Place> {
        self.elsewhere.as_ref()?.places.get(&gate_guard)
    }

    fn remove_place(&mut self, gate_guard: u64) -> Option<Place> {
        self.elsewhere.as_mut()?.places.remove(&gate_guard)
    }
}

impl<H> GateGuard<H> {
    /// True for an unqueued contender.
    pub(crate) fn is_unqueued(&self) -> bool {
        self.is_unqueued
    }

    /// From now on its contender has a place in the store's queue, which `give_up` gives up.
    pub(crate) fn keep_place(&self, give_up: impl FnOnce() + Send + 'static) {
        let Some((gates, target)) = self.inside.as_ref().filter(|_| self.is_unqueued) else {
            return;
        };
        let place = Place { polled_at: Instant::now(), give_up: Some(Box::new(give_up)) };
        let _old = {
            let mut shard = gates.shard(target);
            let Some(gate) = shard.gates.get_mut(&**target) else { return };
            match gate.place(self.number) {
                // If it was passed over, it stays so until it queues again.
                Some(Place { give_up: None, .. }) => Some(place),
                _ => gate.elsewhere().places.insert(self.number, place),
            }
        };
    }

    /// True if its place was given up.
    pub(super) fn has_lost_place(&self) -> bool {
        let Some((gates, target)) = &self.inside else { return false };
        let shard = gates.shard(target);
        let place = shard.gates.get(&**target).and_then(|gate| gate.place(self.number));
        place.is_some_and(|place| place.give_up.is_none())
    }

    /// From now on its place cannot be given up. False if it already was.
    pub(super) fn secure_place(&self) -> bool {
        let Some((gates, target)) = &self.inside else { return true };
        let mut shard = gates.shard(target);
        let Some(gate) = shard.gates.get_mut(&**target) else { return true };
        let (given_up, _place) = match gate.place(self.number) {
            Some(Place { give_up: None, .. }) => (true, None),
            _ => (false, gate.remove_place(self.number)),
        };
        // Not under the mutex (invariant 4).
        drop(shard);
        !given_up
    }
}
