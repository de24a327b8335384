//! Some of the keys, behind one mutex.

use std::collections::HashMap;
use std::sync::Arc;

use super::Key;
use crate::store::Target;

/// A shard with fewer keys is not swept.
const SWEPT_FROM: usize = 64;

pub(super) struct Shard<H> {
    // A key is in the map while a task uses it, or other processes go first. References to it do not outlive the mutex's lock, so
    // removing one needs no count of its users.
    pub(super) keys: HashMap<Arc<Target>, Key<H>>,
    /// Numbers waiters and seats; no number is used twice.
    pub(super) last_number: u64,
    /// The size at which keys that are kept only for `others_first` are removed.
    sweep_at: usize,
}

impl<H> Default for Shard<H> {
    fn default() -> Self {
        Self { keys: HashMap::default(), last_number: 0, sweep_at: SWEPT_FROM }
    }
}

impl<H> Shard<H> {
    pub(super) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn get_or_insert(&mut self, target: &Arc<Target>) -> &mut Key<H> {
        if !self.keys.contains_key(&**target) {
            self.sweep();
        }
        self.keys.entry(Arc::clone(target)).or_insert_with(Key::free)
    }

    fn sweep(&mut self) {
        if self.keys.len() < self.sweep_at {
            return;
        }
        let is_used = |key: &Key<H>| !key.is_free() || key.in_store() > 0;
        // Later turns of other processes are not worth the memory: without such a key, a process asks without a head start for the
        // others, once (S-14).
        self.keys.retain(|_, key| {
            is_used(key) || key.others_first().is_some_and(|it| it.head_start_end().is_some())
        });
        // Twice what is left: so each key pays for a constant number of looks.
        self.sweep_at = (self.keys.len() * 2).max(SWEPT_FROM);
    }
}
