//! Inspecting a name, and freeing it from any holder.

use std::num::NonZeroU32;
use std::time::Duration;

use super::{Change, Field, Hash, Mode, Name, Number, Place, Side, Table, Value};
use crate::clock::Tick;
use crate::fence::FencingToken;
use crate::key::LockKey;
use crate::store::{HoldKind, Inspection, StoredHold, StoredWaiter, Target};

/// How many waiters of a queue are shown.
const SHOWN_WAITERS: usize = 100;

impl Table {
    pub(in super::super) fn inspect(&self, key: &LockKey, now: Tick) -> Inspection {
        self.names.get(key.as_str()).map_or_else(Inspection::default, |name| name.inspect(now))
    }

    /// Returns the first names in use that begin with the prefix, in order, and come after `after`.
    pub(in super::super) fn names(
        &self,
        prefix: &str,
        after: Option<&LockKey>,
        limit: usize,
        now: Tick,
    ) -> Vec<LockKey> {
        let begins = self.names.iter().filter(|(key, _)| {
            key.starts_with(prefix) && after.is_none_or(|after| ***key > *after.as_str())
        });
        let in_use = begins.filter(|(_, name)| name.is_in_use(now)).map(|(key, _)| key);
        let mut keys: Vec<_> = in_use.collect();
        if keys.len() > limit {
            keys.select_nth_unstable(limit);
            keys.truncate(limit);
        }
        keys.sort_unstable();
        keys.into_iter().filter_map(|key| LockKey::new(key).ok()).collect()
    }

    /// True if the name was held, as any kind of lock, and by these clients alone if there are any. A latch does not
    /// count.
    pub(in super::super) fn force_release(
        &mut self,
        key: &LockKey,
        clients: &[String],
        change: &mut Change,
    ) -> bool {
        let Some(name) = self.existing(key.as_str(), change.now) else { return false };
        name.is_held_only_by(clients, change.now) && name.force_release(key, change)
    }

    /// Returns hold counts by owner, as the store shows them, and the time left of the lease.
    pub(in super::super) fn holders(&self, key: &str, now: Tick) -> (Vec<(String, u32)>, Duration) {
        let Some(name) = self.names.get(key) else { return (Vec::new(), Duration::ZERO) };
        if let Some(hash) = name.live_hash(now) {
            let shown = hash.fields.iter().map(|field| (field.shown(), field.count)).collect();
            return (shown, hash.until.since(now));
        }
        let permits = name.permits_by_owner(now);
        let longest = permits.iter().map(|(_, _, until)| until.since(now)).max();
        let shown = permits.into_iter().map(|(owner, count, _)| (owner, count)).collect();
        (shown, longest.unwrap_or_default())
    }
}

impl Name {
    fn inspect(&self, now: Tick) -> Inspection {
        let (mut kind, holders) = match self.live_hash(now) {
            Some(hash) => (Some(self.kind_of(hash, now)), self.live_holders(hash, now)),
            None => (Some(HoldKind::Semaphore), self.permits_by_owner(now)),
        };
        if holders.is_empty() {
            let latch = matches!(&self.value, Some(Value::Number(Number { until: None, .. })));
            kind = latch.then_some(HoldKind::Latch);
        }
        let counter = self.counter.as_ref().filter(|counter| counter.until > now);
        let is_waiting = |place: &&Place| place.until > now;
        let free = match (&self.value, kind) {
            (Some(Value::Number(number)), Some(HoldKind::Semaphore)) => Some(number.count),
            _ => None,
        };
        let over = self.permits.iter().filter(|permit| permit.until <= now).count();
        let free = free.map(|free| free.saturating_add(i64::try_from(over).unwrap_or(0)));
        let queue = self.queue.iter().filter(is_waiting);
        let remaining = holders.iter().map(|(_, _, until)| until.since(now)).max();
        Inspection {
            kind,
            holders: holders.iter().map(|(owner, n, _)| StoredHold::new(owner, *n)).collect(),
            remaining,
            last_token: counter.map(|counter| FencingToken::new(counter.last)),
            waiting: queue.clone().chain(self.writers.iter().filter(is_waiting)).count(),
            queue: queue.take(SHOWN_WAITERS).map(|place| StoredWaiter::new(&place.owner)).collect(),
            free_permits: free.map(|free| u32::try_from(free).unwrap_or(0)),
        }
    }

    /// True if the owner id of each holder begins with one of these, or there are none of these.
    fn is_held_only_by(&self, clients: &[String], now: Tick) -> bool {
        let holders = match self.live_hash(now) {
            Some(hash) => self.live_holders(hash, now),
            None => self.permits_by_owner(now),
        };
        let is_one_of = |owner: &str| clients.iter().any(|client| owner.starts_with(&**client));
        clients.is_empty() || holders.iter().all(|(owner, ..)| is_one_of(owner))
    }

    /// True if it is held, or waiters have a place. A latch is a number, and held by nobody.
    fn is_in_use(&self, now: Tick) -> bool {
        let readers = self.readers.iter().map(|reader| &reader.place);
        let mut places = self.queue.iter().chain(&self.writers).chain(readers);
        self.live_hash(now).is_some()
            || self.permits.iter().any(|permit| permit.until > now)
            || places.any(|place| place.until > now)
    }

    fn force_release(&mut self, key: &LockKey, change: &mut Change) -> bool {
        let longest = self.longest_reader();
        let hash = match self.value.take() {
            Some(Value::Hash(hash)) => hash,
            other => {
                self.value = other;
                return self.free_permits(key, change);
            }
        };
        let held = hash.mode != Mode::Read || longest.is_some();
        match hash.mode {
            Mode::Read | Mode::Write => {
                for field in hash.fields {
                    match field.side {
                        Side::Only => self.reads.remove(&field.owner),
                        Side::Write => self.kept_writes.remove(&field.owner),
                    };
                }
                change.notify(Target::write(key.clone()).channel());
            }
            // Plain waiters and those of a fair mutex may wait for the same name.
            Mode::Plain | Mode::Fair => {
                let fair = Target::fair(key.clone());
                change.notify(fair.channel());
                self.sweep_queue(None, change.now);
                self.notify_head(&fair, change);
            }
        }
        held
    }

    fn free_permits(&mut self, key: &LockKey, change: &mut Change) -> bool {
        if self.permits.iter().all(|permit| permit.until <= change.now) {
            return false;
        }
        if let Some(Value::Number(number)) = &mut self.value {
            number.count += i64::try_from(self.permits.len()).unwrap_or(0);
        }
        self.permits.clear();
        change.notify(Target::semaphore(key.clone(), NonZeroU32::MIN).channel());
        true
    }

    fn live_hash(&self, now: Tick) -> Option<&Hash> {
        match &self.value {
            Some(Value::Hash(hash)) if hash.until > now => Some(hash),
            _ => None,
        }
    }

    /// Returns the kind that it is held as: readers only, once a writer that was kept is over.
    fn kind_of(&self, hash: &Hash, now: Tick) -> HoldKind {
        let writes = |field: &Field| {
            field.side == Side::Write
                && (field.count > 0 || self.own_end(field).is_some_and(|end| end > now))
        };
        match hash.mode {
            Mode::Write if !hash.fields.iter().any(writes) => HoldKind::Read,
            _ => hash.kind(),
        }
    }

    /// Returns owner, count and end of each live hold.
    fn live_holders(&self, hash: &Hash, now: Tick) -> Vec<(String, u32, Tick)> {
        let end = |field: &Field| match (hash.mode, field.side) {
            (Mode::Read, _) | (Mode::Write, Side::Only) => {
                self.own_end(field).filter(|end| *end > now)
            }
            // A writer that has released and is kept for a while has an end of its own, too.
            (Mode::Write, Side::Write) if field.count == 0 => {
                self.own_end(field).filter(|end| *end > now)
            }
            _ => Some(hash.until),
        };
        let alive = |field: &Field| Some((field.shown(), field.count.max(1), end(field)?));
        hash.fields.iter().filter_map(alive).collect()
    }

    fn permits_by_owner(&self, now: Tick) -> Vec<(String, u32, Tick)> {
        let mut owners: Vec<(String, u32, Tick)> = Vec::new();
        for permit in self.permits.iter().filter(|permit| permit.until > now) {
            match owners.iter_mut().find(|(owner, ..)| **owner == *permit.owner) {
                Some((_, count, until)) => {
                    *count += 1;
                    *until = permit.until.max(*until);
                }
                None => owners.push((permit.owner.to_string(), 1, permit.until)),
            }
        }
        owners
    }
}

impl Field {
    /// Returns the field in Redis's form.
    fn shown(&self) -> String {
        match self.side {
            Side::Only => self.owner.to_string(),
            Side::Write => [&self.owner, ":write"].concat(),
        }
    }
}

impl Hash {
    fn kind(&self) -> HoldKind {
        match self.mode {
            Mode::Plain => HoldKind::Mutex,
            Mode::Fair => HoldKind::Fair,
            Mode::Read => HoldKind::Read,
            Mode::Write => HoldKind::Write,
        }
    }
}
