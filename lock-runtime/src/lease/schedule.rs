//! The holds of a client, by the time of their next action.
//!
//! Times are rounded down to slots, so that the watchdog acts on several holds together. Renewals are spread at random:
//! holds that were acquired together would else be due together for ever, and keep the server from other clients. A hold is
//! not renewed before a sixth of its lease, so a short one costs no renewal.
// S-10.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Hold;
use crate::clock::{Tick, nanos};

/// The shortest slot.
const SHORTEST_SLOT: Duration = Duration::from_millis(5);

/// The number of slots in a third of a lease, unless they would be too short. With fewer, more holds share a script, and
/// the server wakes less often; with more, the renewals of a slot keep the server for a shorter time.
const SLOTS: u32 = 100;

/// The start of a hold's slot in its client's schedule, in nanoseconds of a [`Tick`]; zero if it has none. Read and written
/// under the mutex of the schedule only.
#[derive(Default)]
pub(super) struct Slot(AtomicU64);

/// Holds by the time of their next action.
#[derive(Default)]
pub(super) struct Schedule {
    /// By the starts of their slots, and their addresses, which tell those of one slot apart: a hold that is in here does
    /// not move.
    holds: BTreeMap<(u64, usize), Arc<Hold>>,
}

impl Schedule {
    pub(super) fn len(&self) -> usize {
        self.holds.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }

    /// All holds, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Hold>> {
        self.holds.values()
    }

    /// Returns the time of the first action.
    pub(super) fn first(&self) -> Option<Tick> {
        self.holds.first_key_value().map(|((slot, _), _)| Tick::from_nanos(*slot))
    }

    /// Enters a hold whose lease was confirmed for a request sent at `sent_at`, or moves it, to be renewed between a sixth
    /// and a third of the lease later. Returns when.
    pub(super) fn renew_within(
        &mut self,
        hold: &Arc<Hold>,
        sent_at: Tick,
        lease: Duration,
    ) -> Tick {
        let after = fastrand::u64(nanos(lease / 6)..=nanos(lease / 3));
        let width = nanos(lease / (3 * SLOTS)).max(nanos(SHORTEST_SLOT));
        self.enter(hold, start(sent_at.after(Duration::from_nanos(after)), width))
    }

    /// Enters a hold, or moves it, for an action at `at` or a little earlier. Returns when.
    pub(super) fn act_at(&mut self, hold: &Arc<Hold>, at: Tick) -> Tick {
        self.enter(hold, start(at, nanos(SHORTEST_SLOT)))
    }

    /// Enters a hold, or moves it, for an action at `at` or a little later. Returns when.
    pub(super) fn end_at(&mut self, hold: &Arc<Hold>, at: Tick) -> Tick {
        let width = nanos(SHORTEST_SLOT);
        self.enter(hold, start(at, width).saturating_add(width))
    }

    /// True if the hold needs no action until then.
    pub(super) fn is_due_after(hold: &Hold, at: Tick) -> bool {
        let slot = hold.slot.0.load(Ordering::Relaxed);
        slot == 0 || slot > at.as_nanos()
    }

    /// Takes out all holds that are due.
    pub(super) fn take_due(&mut self, now: Tick) -> Vec<Arc<Hold>> {
        let mut due = Vec::new();
        while let Some(first) = self.holds.first_entry()
            && first.key().0 <= now.as_nanos()
        {
            let hold = first.remove();
            hold.slot.0.store(0, Ordering::Relaxed);
            due.push(hold);
        }
        due
    }

    /// Takes out a hold, if it is there.
    pub(super) fn remove(&mut self, hold: &Hold) {
        let slot = hold.slot.0.swap(0, Ordering::Relaxed);
        if slot != 0 {
            self.holds.remove(&(slot, address(hold)));
        }
    }

    fn enter(&mut self, hold: &Arc<Hold>, slot: u64) -> Tick {
        self.remove(hold);
        // Zero means "in no slot".
        let slot = slot.max(1);
        hold.slot.0.store(slot, Ordering::Relaxed);
        self.holds.insert((slot, address(hold)), Arc::clone(hold));
        Tick::from_nanos(slot)
    }
}

fn address(hold: &Hold) -> usize {
    std::ptr::from_ref(hold).addr()
}

/// The start of the slot that contains `at`.
fn start(at: Tick, width: u64) -> u64 {
    at.as_nanos() - at.as_nanos() % width
}
