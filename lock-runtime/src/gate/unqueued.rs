//! Unqueued contenders: their queue is in the store, and a gate only counts them.
//!
//! For each of them that has a place in that queue, the gate has a callback that gives the place up, so that a
//! contender that is not polled does not delay the others.
//!
//! A task that releases the lock wakes the contender that is probably next, so that its request follows the release and
//! the hand-over takes one round trip. That is a hint: the store decides whose turn it is, and notifies that waiter.
// S-18, S-26, S-34.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Admission, Gate, GateGuard, Gates, OthersFirst};
use crate::error::BusyReason;
use crate::liveness::is_asleep;
use crate::store::{OwnerId, Target};

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
    hints: Hints,
}

/// A place in the store's queue.
pub(super) struct Place {
    /// When its contender last gave a sign of life.
    polled_at: Instant,
    /// Empty once the place was given up and its contender passed over.
    give_up: Option<GiveUp>,
    owner: OwnerId,
    /// Wakes its contender, while that sleeps.
    asleep: Option<oneshot::Sender<()>>,
    /// True from when a release has woken it until the store's answer.
    is_hinted: bool,
    /// Dropping it tells its contender that it has become the first.
    first: Option<oneshot::Sender<()>>,
}

type GiveUp = Box<dyn FnOnce() + Send>;

/// After so many hints in a row to waiters whose turn had not come, only one release in [`SELDOM`] gives one: waiters of
/// other processes are probably in between.
const MOST_MISSES: u8 = 2;
const SELDOM: u8 = 8;

/// How often the waiters that were woken had their turn.
#[derive(Default)]
pub(super) struct Hints {
    /// How many of the last ones had not.
    misses: u8,
    /// How many releases gave no hint since.
    skipped: u8,
}

impl Hints {
    fn is_worth_one(&mut self) -> bool {
        if self.misses < MOST_MISSES {
            return true;
        }
        self.skipped = (self.skipped + 1) % SELDOM;
        self.skipped == 0
    }
}

/// A contender that sleeps. Dropping this wakes it.
pub(crate) struct Sleeper {
    /// Whose place it has in the store's queue.
    pub(crate) owner: OwnerId,
    _wakes: oneshot::Sender<()>,
}

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
        let places = &mut self.elsewhere.as_mut()?.places;
        let mut place = places.remove(&gate_guard)?;
        // The caller drops it after the mutex, and so wakes the contender that is the first now.
        place.first = places.first_entry().and_then(|mut next| next.get_mut().first.take());
        Some(place)
    }
}

impl<H> Gates<H> {
    /// The contender that is probably next in the store's queue, if it sleeps and waking it is likely to help.
    fn next_unqueued(&self, target: &Target) -> Option<Sleeper> {
        let mut shard = self.shard(target);
        let gate = shard.gates.get_mut(target)?;
        let Elsewhere { places, hints, .. } = gate.elsewhere.as_deref_mut()?;
        let mut places = places.values_mut().filter(|place| place.give_up.is_some());
        let first = places.next().filter(|place| place.asleep.is_some())?;
        if !hints.is_worth_one() {
            return None;
        }
        first.is_hinted = true;
        Some(Sleeper { owner: first.owner.clone(), _wakes: first.asleep.take()? })
    }
}

impl<H> GateGuard<H> {
    /// For the holder of a lock whose queue is in the store: the waiter to wake once the release is on its way.
    pub(crate) fn next_unqueued(&self) -> Option<Sleeper> {
        let (gates, target) = self.inside.as_ref().filter(|_| self.outside)?;
        gates.next_unqueued(target)
    }

    /// Resolves when a release wakes this unqueued contender.
    pub(super) fn sleeps_unqueued(&self) -> Option<oneshot::Receiver<()>> {
        let (wake, woken) = oneshot::channel();
        self.with_place(|_, place| place.asleep = Some(wake))?;
        Some(woken)
    }

    /// Resolves once this unqueued contender has been the first of its process for that long.
    pub(crate) async fn has_been_first(&self, long: Duration) {
        loop {
            // In a line that moves, few contenders wait for so long, and only those ask.
            tokio::time::sleep(long).await;
            let Some(becomes_first) = self.becomes_first() else { return };
            // It was dropped: that is the signal.
            let _ = becomes_first.await;
        }
    }

    /// `None` if it is the first.
    fn becomes_first(&self) -> Option<oneshot::Receiver<()>> {
        let (gates, target) = self.inside.as_ref().filter(|_| self.is_unqueued)?;
        let mut shard = gates.shard(target);
        let gate = shard.gates.get_mut(&**target)?;
        let places = &mut gate.elsewhere.as_deref_mut()?.places;
        if places.keys().next() == Some(&self.number) {
            return None;
        }
        let (first, becomes_first) = oneshot::channel();
        places.get_mut(&self.number)?.first = Some(first);
        Some(becomes_first)
    }

    /// Records the store's answer to this unqueued contender. True if it was hinted at its turn.
    pub(super) fn note_turn(&self, has_come: bool) -> bool {
        let noted = self.with_place(|hints, place| {
            let was_hinted = std::mem::take(&mut place.is_hinted);
            if was_hinted {
                hints.misses = if has_come { 0 } else { hints.misses.saturating_add(1) };
            }
            was_hinted
        });
        noted.unwrap_or(false)
    }

    /// True if this process has other unqueued contenders.
    pub(crate) fn has_company(&self) -> bool {
        let Some((gates, target)) = self.inside.as_ref().filter(|_| self.is_unqueued) else {
            return false;
        };
        gates.shard(target).gates.get(&**target).is_some_and(|gate| gate.unqueued() > 1)
    }

    fn with_place<T>(&self, f: impl FnOnce(&mut Hints, &mut Place) -> T) -> Option<T> {
        let (gates, target) = self.inside.as_ref().filter(|_| self.is_unqueued)?;
        let mut shard = gates.shard(target);
        let gate = shard.gates.get_mut(&**target)?;
        let Elsewhere { hints, places, .. } = gate.elsewhere.as_deref_mut()?;
        places.get_mut(&self.number).map(|place| f(hints, place))
    }

    /// True for an unqueued contender.
    pub(crate) fn is_unqueued(&self) -> bool {
        self.is_unqueued
    }

    /// From now on its contender has a place in the store's queue, which `give_up` gives up.
    pub(crate) fn keep_place(&self, owner: &OwnerId, give_up: impl FnOnce() + Send + 'static) {
        let Some((gates, target)) = self.inside.as_ref().filter(|_| self.is_unqueued) else {
            return;
        };
        let place = Place {
            polled_at: Instant::now(),
            give_up: Some(Box::new(give_up)),
            owner: owner.clone(),
            asleep: None,
            is_hinted: false,
            first: None,
        };
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
