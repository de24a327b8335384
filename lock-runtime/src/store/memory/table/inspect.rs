//! Looking at a name, and freeing it whoever holds it.

use std::time::Duration;

use super::{Hash, Mode, Name, Side, Table, Tell, Value};
use crate::clock::Tick;
use crate::fence::FencingToken;
use crate::key::LockKey;
use crate::store::{Inspection, LockKind, StoredHold, Target};

impl Table {
    pub(in super::super) fn inspect(&self, key: &LockKey, now: Tick) -> Inspection {
        self.names.get(key.as_str()).map_or_else(Inspection::nothing, |name| name.inspect(now))
    }

    /// True if the name was held, as whatever lock. A latch is none.
    pub(in super::super) fn force_release(
        &mut self,
        key: &LockKey,
        now: Tick,
        tell: &mut Tell,
    ) -> bool {
        self.existing(key.as_str(), now).is_some_and(|name| name.force_release(key, now, tell))
    }

    /// Hold counts by owner, as the store shows them, and what is left of the lease.
    pub(in super::super) fn holders(&self, key: &str, now: Tick) -> (Vec<(String, u32)>, Duration) {
        let Some(name) = self.names.get(key) else { return (Vec::new(), Duration::ZERO) };
        let until = name.end_of_hold(now);
        let holders = match name.live_hash(now) {
            Some(hash) => hash.shown(),
            None => name.permits_by_owner(now),
        };
        (holders, until.map_or(Duration::ZERO, |until| until.since(now)))
    }
}

impl Name {
    fn inspect(&self, now: Tick) -> Inspection {
        let alive = |until: Tick| until > now;
        let (kind, holders) = match self.live_hash(now) {
            Some(hash) => (Some(hash.kind()), self.live_holders(hash, now)),
            None => (None, self.permits_by_owner(now)),
        };
        let kind = kind.or((!holders.is_empty()).then_some(LockKind::Semaphore));
        let counter = self.counter.as_ref().filter(|counter| alive(counter.until));
        let places = self.queue.iter().chain(&self.writers);
        Inspection {
            kind,
            holders: holders.iter().map(|(owner, count)| StoredHold::new(owner, *count)).collect(),
            remaining: self.end_of_hold(now).map(|until| until.since(now)),
            last_token: counter.map(|counter| FencingToken::new(counter.last)),
            waiting: places.filter(|place| alive(place.until)).count(),
        }
    }

    fn force_release(&mut self, key: &LockKey, now: Tick, tell: &mut Tell) -> bool {
        let permits = self.permits.iter().any(|permit| permit.until > now);
        let Some(Value::Hash(hash)) = &self.value else {
            if permits {
                self.permits.clear();
                self.value = None;
                tell.push(key.companion("redisson_sc"));
            }
            return permits;
        };
        let mode = hash.mode;
        self.value = None;
        match mode {
            Mode::Read | Mode::Write => {
                self.reads.clear();
                tell.push(Target::side(LockKind::Write, key.clone()).channel().to_owned());
            }
            // Plain waiters and those of a fair mutex may wait for the same name.
            Mode::Plain | Mode::Fair => {
                let fair = Target::fair(key.clone());
                tell.push(fair.channel().to_owned());
                self.sweep_queue(None, now);
                self.tell_head(&fair, tell);
            }
        }
        true
    }

    fn live_hash(&self, now: Tick) -> Option<&Hash> {
        match &self.value {
            Some(Value::Hash(hash)) if hash.until > now => Some(hash),
            _ => None,
        }
    }

    /// The holds whose own leases go on.
    fn live_holders(&self, hash: &Hash, now: Tick) -> Vec<(String, u32)> {
        let reads = |owner: &str| self.reads.get(owner).is_some_and(|end| *end > now);
        let mut holders = hash.shown();
        if hash.mode == Mode::Read {
            holders.retain(|(owner, _)| reads(owner));
        }
        holders
    }

    fn permits_by_owner(&self, now: Tick) -> Vec<(String, u32)> {
        let mut owners: Vec<(String, u32)> = Vec::new();
        for permit in self.permits.iter().filter(|permit| permit.until > now) {
            match owners.iter_mut().find(|(owner, _)| **owner == *permit.owner) {
                Some((_, count)) => *count += 1,
                None => owners.push((permit.owner.to_string(), 1)),
            }
        }
        owners
    }

    fn end_of_hold(&self, now: Tick) -> Option<Tick> {
        match self.live_hash(now) {
            Some(hash) => Some(hash.until),
            None => {
                self.permits.iter().map(|permit| permit.until).filter(|until| *until > now).max()
            }
        }
    }
}

impl Hash {
    /// The fields as Redis has them, without the mode.
    fn shown(&self) -> Vec<(String, u32)> {
        let name = |field: &super::Field| match field.side {
            Side::Only => field.owner.to_string(),
            Side::Write => [&field.owner, ":write"].concat(),
        };
        self.fields.iter().map(|field| (name(field), field.count)).collect()
    }

    fn kind(&self) -> LockKind {
        match self.mode {
            Mode::Plain => LockKind::Mutex,
            Mode::Fair => LockKind::Fair,
            Mode::Read => LockKind::Read,
            Mode::Write => LockKind::Write,
        }
    }
}
