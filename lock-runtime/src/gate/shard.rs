//! The gates of some of the keys, behind one mutex.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use tokio::time::Instant;

use super::{Gate, GateState};
use crate::store::{OwnerId, Target};

/// A shard with fewer gates is not swept.
const SWEPT_FROM: usize = 64;

/// Most gates of a shard that are kept only because other processes go first.
// S-14.
const MOST_UNUSED: usize = 16;

pub(super) struct Shard<H> {
    pub(super) gates: HashMap<Arc<Target>, Gate<H>, BuildHasherDefault<Hashed>>,
    /// Numbers waiters and gate guards; no number is used twice.
    pub(super) last_number: u64,
    /// The size at which gates that are kept only for `others_first` are removed.
    sweep_at: usize,
}

impl<H> Default for Shard<H> {
    fn default() -> Self {
        Self { gates: HashMap::default(), last_number: 0, sweep_at: SWEPT_FROM }
    }
}

impl<H> Shard<H> {
    pub(super) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Creates the gate guard of a free gate, with that number.
    pub(super) fn create_guard(&mut self, target: &Arc<Target>, number: u64) {
        if !self.gates.contains_key(&**target) {
            self.sweep();
        }
        self.gates.entry(Arc::clone(target)).or_insert_with(Gate::free).take(number);
    }

    /// Creates the gate guard of a key that has no gate, with that number, for a contender that asks the store as `owner`.
    pub(super) fn create_contender(
        &mut self,
        target: &Arc<Target>,
        number: u64,
        owner: &OwnerId,
        now: Instant,
    ) {
        self.sweep();
        let gate = Gate {
            gate_guard: GateState::Contending { polled_at: now },
            guard_number: number,
            asking: owner.number(),
            ..Gate::free()
        };
        self.gates.insert(Arc::clone(target), gate);
    }

    pub(super) fn sweep(&mut self) {
        if self.gates.len() < self.sweep_at {
            return;
        }
        let now = Instant::now();
        let is_used = |gate: &Gate<H>| !gate.is_free() || gate.unqueued() > 0;
        self.gates.retain(|_, gate| {
            is_used(gate) || gate.others_first().is_some_and(|others| !others.is_over(now))
        });
        if self.gates.values().filter(|gate| !is_used(gate)).count() > MOST_UNUSED {
            // The turns of other processes are not worth more memory.
            self.gates.retain(|_, gate| {
                is_used(gate) || gate.others_first().is_some_and(|it| it.head_start_end().is_some())
            });
        }
        self.sweep_at = (self.gates.len() * 2).max(SWEPT_FROM);
    }
}

/// Passes on the hash that a [`Target`] brings along.
#[derive(Default)]
pub(super) struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    /// Not called for targets; still a hash if it were.
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(31).wrapping_add(u64::from(*byte));
        }
    }
}
