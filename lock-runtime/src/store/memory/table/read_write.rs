//! Read/write locks.
//!
//! A read hold ends by its own time, in `reads`; the hash lives as long as the longest.
// S-27.

use super::{
    Change, Field, Hash, Mode, Name, Place, Reply, SOON, Side, Value, WaitingReader, another_kind,
    held, keep_place, leave_place,
};
use crate::clock::Tick;
use crate::error::StoreError;
use crate::store::{AcquireReply, AcquireRequest, OwnerId, Target};

impl Name {
    pub(super) fn acquire_read(&mut self, ask: &AcquireRequest, now: Tick) -> Reply {
        let owner = ask.owner.as_field();
        let alive = self.reads.contains_key(owner);
        let (mut ours, mut writes) = (false, false);
        if let Some(hash) = self.side_hash()? {
            ours = alive && hash.has(owner, Side::Only);
            // A writer that has released, and is kept for a while, admits no reader.
            let entered = |writer| hash.fields.iter().any(|field| field.writes(writer));
            writes = hash.mode == Mode::Write && ask.owner.writer().is_some_and(entered);
            if hash.mode == Mode::Write && !(writes || ours) {
                match self.writer_ends() {
                    Some(until) => return Ok(self.turn_away(ask, until, true, now)),
                    None => self.forget_writer(),
                }
            }
        }
        if ask.joins && !(ours || writes) {
            // It has ended meanwhile, and joining never creates one.
            return Ok(AcquireReply::Behind(Some(SOON)));
        }
        // A writer may read; a reader that already reads goes on. All others let writers go first.
        let is_due = |reader: &WaitingReader| reader.due && &*reader.place.owner == owner;
        let due = !ask.joins && self.readers.iter().any(is_due);
        let last = self.last_writer(now).filter(|_| !due);
        if let (Some(last), true) = (last, !writes && (ask.joins || !ours)) {
            return Ok(self.turn_away(ask, last, false, now));
        }
        let token = self.mint(ask, now);
        self.readers.retain(|reader| &*reader.place.owner != owner);
        self.kept_reads.remove(ask.owner.as_field());
        let end = self.reads.entry(ask.owner.shared_field()).or_insert(now);
        *end = now.after(ask.lease).max(*end);
        let end = *end;
        if let (false, Ok(Some(hash))) = (ours, self.hash()) {
            // An ended hold may still be in it.
            hash.remove(owner, Side::Only);
        }
        self.hold(Mode::Read, Side::Only, &ask.owner, end);
        Ok(AcquireReply::Granted(token))
    }

    /// Refuses a reader, which is due after a write that it waits for. A waiting reader gets a place.
    fn turn_away(
        &mut self,
        ask: &AcquireRequest,
        until: Tick,
        due: bool,
        now: Tick,
    ) -> AcquireReply {
        if let Some(keep) = ask.place.filter(|_| !ask.joins) {
            let place = Place { owner: ask.owner.shared_field(), until: now.after(keep) };
            self.readers.retain(|reader| reader.place.owner != place.owner);
            self.readers.push(WaitingReader { place, due });
        }
        // It waits for a writer that holds the lock, or for one that goes first.
        if due { held(until, now) } else { AcquireReply::Behind(Some(until.since(now))) }
    }

    pub(super) fn acquire_write(&mut self, ask: &AcquireRequest, now: Tick) -> Reply {
        let mut ours = false;
        let mut in_the_way = None;
        if let Some(hash) = self.side_hash()? {
            ours = hash.mode == Mode::Write && hash.has(ask.owner.as_field(), Side::Write);
            in_the_way =
                if hash.mode == Mode::Write { Some(hash.until) } else { self.longest_reader() };
        }
        // A reader that has waited through a write goes first.
        let due = self.readers.iter().filter(|reader| reader.due).map(|reader| reader.place.until);
        let due = due.max();
        if let (false, Some(until)) = (ours, in_the_way.or(due)) {
            if let Some(keep) = ask.place {
                self.writers.retain(|place| place.until > now);
                keep_place(&mut self.writers, &ask.owner, now.after(keep));
                self.writers_until = self.last_writer(now);
            }
            return Ok(match in_the_way {
                Some(_) => held(until, now),
                None => AcquireReply::Behind(Some(until.since(now))),
            });
        }
        let token = self.mint(ask, now);
        if !ours {
            // Readers that died may still be in it.
            self.value = None;
            self.readers.iter_mut().for_each(|reader| reader.due = true);
        }
        self.hold(Mode::Write, Side::Write, &ask.owner, now.after(ask.lease));
        leave_place(&mut self.writers, &ask.owner);
        Ok(AcquireReply::Granted(token))
    }

    /// Frees the lock with its last reader. Readers that died are removed too, and so is a writer around them
    /// that has released and is kept for a while: then they are readers like others.
    pub(super) fn release_read(
        &mut self,
        lock: &Target,
        owner: &OwnerId,
        change: &mut Change,
    ) -> bool {
        let Ok(hash) = self.hash() else { return false };
        let write = hash.as_ref().is_some_and(|hash| hash.mode == Mode::Write);
        let Some(hash) = hash.filter(|hash| hash.has(owner.as_field(), Side::Only)) else {
            if self.leave_readers(owner) && !write {
                // A writer may have waited for this reader, and no longer needs to.
                change.notify(lock.channel());
            }
            return false;
        };
        hash.remove(owner.as_field(), Side::Only);
        let kept = hash.fields.iter().any(|field| field.side == Side::Write && field.count == 0);
        let alive = self.reads.remove(owner.as_field()).is_some();
        if write && !kept {
            return alive;
        }
        let longest = self.keep_alive();
        if let Some(Value::Hash(hash)) = &mut self.value
            && hash.fields.iter().all(|field| field.side == Side::Only)
        {
            hash.mode = Mode::Read;
        }
        if kept || longest.is_none() {
            change.notify(lock.channel());
        }
        alive
    }

    /// True if the reader had a place, and was due.
    fn leave_readers(&mut self, owner: &OwnerId) -> bool {
        let place = self.readers.iter().position(|it| &*it.place.owner == owner.as_field());
        place.is_some_and(|place| self.readers.swap_remove(place).due)
    }

    /// Releases the write side, and always removes the announcement. Reads inside it stay.
    pub(super) fn release_write(
        &mut self,
        lock: &Target,
        owner: &OwnerId,
        change: &mut Change,
    ) -> bool {
        let withdrawn = leave_place(&mut self.writers, owner);
        let last_left = withdrawn && self.last_writer(change.now).is_none();
        let Ok(hash) = self.hash() else { return false };
        let Some(hash) = hash.filter(|hash| hash.has(owner.as_field(), Side::Write)) else {
            if last_left {
                // Readers that let it go first no longer need to wait.
                change.notify(lock.channel());
            }
            return false;
        };
        hash.remove(owner.as_field(), Side::Write);
        self.keep_alive();
        if let Some(Value::Hash(hash)) = &mut self.value {
            hash.mode = Mode::Read;
        }
        change.notify(lock.channel());
        true
    }

    /// Returns the hash, if it belongs to a read/write lock.
    fn side_hash(&mut self) -> Result<Option<&mut Hash>, StoreError> {
        match self.hash()? {
            Some(hash) if matches!(hash.mode, Mode::Plain | Mode::Fair) => Err(another_kind()),
            hash => Ok(hash),
        }
    }

    /// Returns when the writer ends that holds the lock, or has released it and is kept. `None` if its time is over, and only
    /// reads inside of it go on.
    fn writer_ends(&self) -> Option<Tick> {
        let Some(Value::Hash(hash)) = &self.value else { return None };
        match hash.fields.iter().find(|field| field.side == Side::Write && field.count == 0) {
            Some(kept) => self.own_end(kept),
            None => Some(hash.until),
        }
    }

    /// Makes the reads inside of a writer that has ended readers like others.
    fn forget_writer(&mut self) {
        if let Some(Value::Hash(hash)) = &mut self.value {
            hash.fields.retain(|field| field.side == Side::Only);
            hash.mode = Mode::Read;
        }
    }

    /// Returns when the last of the announced writers ends, if one is alive.
    fn last_writer(&self, now: Tick) -> Option<Tick> {
        self.writers.iter().map(|place| place.until).filter(|until| *until > now).max()
    }

    /// Returns when the last hold in the hash with an end of its own ends, if one is alive.
    pub(super) fn longest_reader(&self) -> Option<Tick> {
        let Some(Value::Hash(hash)) = &self.value else { return None };
        hash.fields.iter().filter_map(|field| self.own_end(field)).max()
    }

    /// Returns when a reader ends, or a writer that has released and is kept.
    pub(super) fn own_end(&self, field: &Field) -> Option<Tick> {
        let ends = if field.side == Side::Write { &self.kept_writes } else { &self.reads };
        ends.get(&field.owner).copied()
    }

    /// Keeps the live holds of the hash, for as long as the longest of them.
    fn keep_alive(&mut self) -> Option<Tick> {
        let longest = self.longest_reader();
        let Self { value, reads, kept_writes, .. } = self;
        match (value, longest) {
            (Some(Value::Hash(hash)), Some(longest)) => {
                hash.fields.retain(|field| match field.side {
                    Side::Only => reads.contains_key(&field.owner),
                    Side::Write => kept_writes.contains_key(&field.owner),
                });
                hash.until = longest;
            }
            (value, _) => *value = None,
        }
        longest
    }
}

impl Field {
    /// True if that writer has entered, and not released.
    fn writes(&self, owner: &str) -> bool {
        self.side == Side::Write && self.count > 0 && &*self.owner == owner
    }
}
