//! Contenders side by side: their line is in the store, and a gate only counts them (S-18, S-26).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Entry, Gate, Gates, Seat, SeatState};
use crate::error::BusyReason;
use crate::store::Target;

impl<H> Gates<H> {
    /// Lets in a contender who lines up in the store and not here, if there is room (S-18).
    pub(crate) fn enter_beside(self: &Arc<Self>, target: &Arc<Target>, max: usize) -> Entry<H> {
        let mut shard = self.shard(target);
        if self.closed.load(Ordering::SeqCst) {
            return Entry::Closed;
        }
        let others = shard.gates.get(&**target).map_or(0, |gate| gate.beside);
        // As with a seat, one of them counts as contending and the others as waiting.
        if others > 0 {
            if others > max || self.waiting.load(Ordering::Relaxed) >= self.max_waiting {
                return Entry::Busy(BusyReason::TooManyWaiters);
            }
            self.waiting.fetch_add(1, Ordering::Relaxed);
        }
        let gate = shard
            .gates
            .entry(Arc::clone(target))
            .or_insert_with(|| Gate { seat: SeatState::Free, ..Gate::taken() });
        gate.beside += 1;
        let inside = Some((Arc::clone(self), Arc::clone(target)));
        Entry::Turn(Seat { inside, beside: true, outside: false })
    }

    pub(super) fn leave_beside(&self, target: &Target) {
        let mut shard = self.shard(target);
        let Some(gate) = shard.gates.get_mut(target) else { return };
        gate.beside -= 1;
        if gate.beside > 0 {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        } else if gate.seat == SeatState::Free {
            shard.gates.remove(target);
        }
    }
}
