//! The holds of a client, by the time of their next action.
//!
//! Holds whose times are close share a slot, so that the watchdog acts on them together, and a hold enters and leaves
//! the schedule without a search among all others.
//!
//! Renewals are spread: holds that were acquired together would else be due together for ever, and keep the server
//! from other clients. A hold whose slot is crowded is renewed earlier than after a third of its lease, but not
//! before half of that time, so a short hold costs no renewal. After a few rounds, renewals are even over a third of
//! the lease. Holds that were acquired in succession are spread in [runs](RUN), since a server finds keys faster that lie
//! next to each other in its memory.
// S-10.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::Hold;
use crate::clock::{Tick, nanos};

/// The shortest slot.
const SHORTEST_SLOT: Duration = Duration::from_millis(5);

/// The number of slots in a third of a lease, unless they would be too short. With fewer, more holds share a script, and
/// the server wakes less often; with more, the renewals of a slot keep the server for a shorter time.
const SLOTS: u32 = 100;

/// The number of holds that never crowd a slot.
const FEW: usize = 16;

/// The number of holds of a crowd that go to one slot in succession. Keys that were created in succession are neighbours in
/// the memory of the server, and most of what a renewal costs there is the wait for memory. With longer runs, slots are less
/// even.
const RUN: usize = 64;

/// The slots whose memory is kept when they are emptied, and the holds that each may have room for.
const SPARES: usize = 16;
const SPARE_ROOM: usize = 256;

/// A hold's place in its client's schedule. Written under the mutex of the schedule only.
#[derive(Default)]
pub(super) struct Place {
    /// The start of its slot; zero if it has none.
    slot: AtomicU64,
    /// Its place in the slot.
    index: AtomicU32,
}

/// Holds by the time of their next action.
#[derive(Default)]
pub(super) struct Schedule {
    /// By their start, in nanoseconds of a [`Tick`]; none is empty.
    slots: BTreeMap<u64, Vec<Arc<Hold>>>,
    len: usize,
    run: Run,
    /// Emptied slots.
    spares: Vec<Vec<Arc<Hold>>>,
}

/// A slot that takes so many more holds of the crowd at `latest`.
#[derive(Default)]
struct Run {
    latest: u64,
    width: u64,
    slot: u64,
    left: usize,
}

impl Schedule {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All holds, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Hold>> {
        self.slots.values().flatten()
    }

    /// Returns the time of the first action.
    pub(super) fn first(&self) -> Option<Tick> {
        self.slots.first_key_value().map(|(slot, _)| Tick::from_nanos(*slot))
    }

    /// Enters a hold whose lease was confirmed for a request sent at `sent_at`, or moves it, to be renewed within a
    /// third of the lease. Returns when.
    pub(super) fn renew_within(
        &mut self,
        hold: &Arc<Hold>,
        sent_at: Tick,
        lease: Duration,
    ) -> Tick {
        self.remove(hold);
        let width = width(lease);
        let latest = start(sent_at.after(lease / 3), width);
        // More than the average, so that holds which are nearly even stay where they are.
        let average = self.len as u64 * width / nanos(lease / 3).max(1);
        let crowd = FEW.max((average + average / 4) as usize);
        let slot = if self.count(latest) < crowd {
            latest
        } else {
            // One less, since `latest` may be the beginning of a slot that has nearly passed.
            let slots = (nanos(lease / 6) / width).saturating_sub(1).max(1);
            self.next_of_run(latest, width, slots, RUN.min(crowd))
        };
        self.enter(hold, slot)
    }

    /// Returns one of so many slots before `latest` for a hold of a crowd: that of the hold before, until its run ends.
    fn next_of_run(&mut self, latest: u64, width: u64, slots: u64, length: usize) -> u64 {
        let is_current = self.run.latest == latest && self.run.width == width;
        if !is_current || self.run.left == 0 {
            let one = || latest.saturating_sub(width * fastrand::u64(1..=slots));
            // The emptier one of two at random leaves no slot fuller than others by much more than a run.
            let (one, other) = (one(), one());
            let slot = if self.count(one) <= self.count(other) { one } else { other };
            self.run = Run { latest, width, slot, left: length };
        }
        self.run.left -= 1;
        self.run.slot
    }

    /// Enters a hold, or moves it, for an action at `at` or a little earlier. Returns when.
    pub(super) fn act_at(&mut self, hold: &Arc<Hold>, at: Tick) -> Tick {
        self.remove(hold);
        self.enter(hold, start(at, nanos(SHORTEST_SLOT)))
    }

    /// Enters a hold, or moves it, for an action at `at` or a little later. Returns when.
    pub(super) fn end_at(&mut self, hold: &Arc<Hold>, at: Tick) -> Tick {
        self.remove(hold);
        let width = nanos(SHORTEST_SLOT);
        self.enter(hold, start(at, width).saturating_add(width))
    }

    /// True if the hold needs no action until then.
    pub(super) fn is_due_after(hold: &Hold, at: Tick) -> bool {
        let slot = hold.place.slot.load(Ordering::Relaxed);
        slot == 0 || slot > at.as_nanos()
    }

    /// Takes out all holds that are due.
    pub(super) fn take_due(&mut self, now: Tick) -> Vec<Arc<Hold>> {
        let mut due = Vec::new();
        while let Some(slot) = self.slots.first_entry().filter(|slot| *slot.key() <= now.as_nanos())
        {
            let mut holds = slot.remove();
            holds.iter().for_each(|hold| hold.place.slot.store(0, Ordering::Relaxed));
            due.append(&mut holds);
            self.keep(holds);
        }
        self.len -= due.len();
        due
    }

    /// Takes out a hold, if it is there.
    pub(super) fn remove(&mut self, hold: &Hold) {
        let slot = hold.place.slot.swap(0, Ordering::Relaxed);
        if slot == 0 {
            return;
        }
        let Entry::Occupied(mut slot) = self.slots.entry(slot) else { return };
        let index = hold.place.index.load(Ordering::Relaxed) as usize;
        let holds = slot.get_mut();
        holds.swap_remove(index);
        if let Some(moved) = holds.get(index) {
            moved.place.index.store(index as u32, Ordering::Relaxed);
        }
        self.len -= 1;
        if holds.is_empty() {
            let holds = slot.remove();
            self.keep(holds);
        }
    }

    /// Enters a hold that is in no slot.
    fn enter(&mut self, hold: &Arc<Hold>, slot: u64) -> Tick {
        // Zero means "in no slot".
        let slot = slot.max(1);
        let holds = match self.slots.entry(slot) {
            Entry::Occupied(slot) => slot.into_mut(),
            Entry::Vacant(slot) => slot.insert(self.spares.pop().unwrap_or_default()),
        };
        hold.place.index.store(holds.len() as u32, Ordering::Relaxed);
        hold.place.slot.store(slot, Ordering::Relaxed);
        holds.push(Arc::clone(hold));
        self.len += 1;
        Tick::from_nanos(slot)
    }

    fn count(&self, slot: u64) -> usize {
        self.slots.get(&slot).map_or(0, Vec::len)
    }

    /// Keeps the memory of an emptied slot, which a lock acquired alone would else allocate each time.
    fn keep(&mut self, emptied: Vec<Arc<Hold>>) {
        if self.spares.len() < SPARES && emptied.capacity() <= SPARE_ROOM {
            self.spares.push(emptied);
        }
    }
}

/// The width of the slots for renewals of this lease, in nanoseconds.
fn width(lease: Duration) -> u64 {
    nanos(lease / (3 * SLOTS)).max(nanos(SHORTEST_SLOT))
}

/// The start of the slot that contains `at`.
fn start(at: Tick, width: u64) -> u64 {
    at.as_nanos() - at.as_nanos() % width
}
