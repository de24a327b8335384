//! The rules of the memory store: how each request changes the table at a given time.
//!
//! Pure, without a runtime or a clock. A name is stored as in Redis: a value of one of two types at the name
//! itself, and its companions. Each kind has the same rules as its scripts, which the differential test checks.

mod end_later;
mod exclusive;
mod fair;
mod inspect;
mod latch;
mod read_write;
mod semaphore;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Tick;
use crate::error::{StoreError, StoreErrorKind};
use crate::fence::FencingToken;
use crate::store::{
    AcquireReply, AcquireRequest, HoldKind, LatchRequest, OwnerId, Ownership, ReleaseRequest,
    RenewRequest, Target, no_hold,
};

/// How many names the table holds before it is searched for those that have ended.
const FIRST_SWEEP: usize = 1024;

/// How long a queue outlives its last member, so that a late member keeps its place.
const QUEUE_MEMORY: Duration = Duration::from_secs(60);

/// The shortest wait in a refusal whose obstacle has not ended yet.
const SOON: Duration = Duration::from_millis(1);

/// Every name that is or recently was in use.
#[derive(Default)]
pub(super) struct Table {
    names: HashMap<Box<str>, Name>,
    sweep_at: usize,
    /// The last token of all names that were forgotten. One counter is enough for them: tokens only have to grow.
    // S-23.
    forgotten: u64,
}

/// The state of one name.
#[derive(Default)]
struct Name {
    value: Option<Value>,
    counter: Option<Counter>,
    /// Its tokens are above this: it may have had a counter before it was forgotten.
    above: u64,
    /// Waiters of a fair mutex, in order; those whose time has passed count as dead.
    queue: VecDeque<Place>,
    /// Announced writers. They are forgotten together, at `writers_until`.
    writers: VecDeque<Place>,
    writers_until: Option<Tick>,
    /// Readers that were refused and wait.
    readers: Vec<WaitingReader>,
    /// When each reader's own lease ends.
    reads: BTreeMap<Arc<str>, Tick>,
    /// Those of them that were released and are kept until their end.
    kept_reads: BTreeSet<Arc<str>>,
    /// Until when each writer that has released is kept.
    kept_writes: BTreeMap<Arc<str>, Tick>,
    permits: Vec<Permit>,
}

/// The value at the name itself.
enum Value {
    Hash(Hash),
    /// Free permits of a semaphore, or the count of a latch.
    Number(Number),
}

struct Hash {
    mode: Mode,
    fields: Vec<Field>,
    until: Tick,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Plain,
    Fair,
    Read,
    Write,
}

struct Field {
    owner: Arc<str>,
    side: Side,
    count: u32,
}

/// The side of an owner's hold: a writer may also read.
// S-27.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Only,
    Write,
}

struct Number {
    count: i64,
    /// Only free permits expire.
    until: Option<Tick>,
}

struct Place {
    owner: Arc<str>,
    until: Tick,
}

struct WaitingReader {
    place: Place,
    /// True once it has waited through a write, or its rest: then it goes before the next writer.
    due: bool,
}

/// One permit; each owner's are numbered from one.
struct Permit {
    owner: Arc<str>,
    number: u32,
    until: Tick,
    /// True once it was released and is kept until its end.
    kept: bool,
}

struct Counter {
    last: u64,
    until: Tick,
}

type Reply = Result<AcquireReply, StoreError>;

/// A change of the table: its time, and the channels to notify once the change can be seen.
pub(super) struct Change {
    pub(super) now: Tick,
    /// Of each list, the first channel that has listeners.
    pub(super) notify: Vec<Vec<String>>,
}

impl Change {
    pub(super) fn at(now: Tick) -> Self {
        Self { now, notify: Vec::new() }
    }

    fn notify(&mut self, channel: &str) {
        self.notify.push(vec![channel.to_owned()]);
    }
}

impl Table {
    pub(super) fn acquire(&mut self, ask: &AcquireRequest, change: &mut Change) -> Reply {
        let (target, now) = (&ask.target, change.now);
        match target.kind() {
            HoldKind::Multi => self.acquire_multi(ask, now),
            HoldKind::Latch => Err(no_hold()),
            kind => {
                let name = self.name(target.key().as_str(), now);
                match kind {
                    HoldKind::Fair => name.acquire_fair(ask, change),
                    HoldKind::Read => name.acquire_read(ask, now),
                    HoldKind::Write => name.acquire_write(ask, now),
                    HoldKind::Semaphore => name.acquire_permits(ask, change),
                    _ => name.acquire_mutex(ask, now),
                }
            }
        }
    }

    /// `Owner` if the lock was held and is free now, or will be at the requested time.
    pub(super) fn release(
        &mut self,
        ask: &ReleaseRequest,
        change: &mut Change,
    ) -> Result<Ownership, StoreError> {
        let (target, now, mut all) = (&ask.target, change.now, true);
        if target.kind() == HoldKind::Latch {
            return Err(no_hold());
        }
        for lock in target.locks() {
            let Some(name) = self.existing(lock.key().as_str(), now) else {
                all = false;
                continue;
            };
            let owner = &ask.owner;
            if !ask.keep.is_zero() {
                all &= name.end_later(lock, owner, now.after(ask.keep), change);
                continue;
            }
            all &= match target.kind() {
                HoldKind::Fair => name.release_fair(lock, owner, change),
                HoldKind::Read => name.release_read(lock, owner, change),
                HoldKind::Write => name.release_write(lock, owner, change),
                HoldKind::Semaphore => name.release_permits(lock, owner, change),
                HoldKind::Mutex | HoldKind::Multi | HoldKind::Latch => {
                    name.release_mutex(lock, owner, change)
                }
            };
        }
        Ok(if all { Ownership::Owner } else { Ownership::NotOwner })
    }

    pub(super) fn renew(&mut self, ask: &RenewRequest, now: Tick) -> Ownership {
        let until = now.after(ask.lease);
        let mut all = true;
        for lock in ask.target.locks() {
            all &= self
                .existing(lock.key().as_str(), now)
                .is_some_and(|name| name.renew(lock.kind(), &ask.owner, until, now));
        }
        if all { Ownership::Owner } else { Ownership::NotOwner }
    }

    pub(super) fn latch(
        &mut self,
        target: &Target,
        request: LatchRequest,
        change: &mut Change,
    ) -> Result<u64, StoreError> {
        self.name(target.key().as_str(), change.now).latch(target, request, change)
    }

    /// Records a token that another store granted.
    // S-29.
    pub(super) fn raise_token(&mut self, target: &Target, token: FencingToken, now: Tick) {
        let name = self.name(target.key().as_str(), now);
        if name.last_token() < token.get() {
            name.set_counter(token.get(), now.after(target.token_ttl()));
        }
    }

    /// Returns the name, created if it is missing, without the parts that have ended.
    fn name(&mut self, key: &str, now: Tick) -> &mut Name {
        self.sweep(now);
        let above = self.forgotten;
        let name =
            self.names.entry(key.into()).or_insert_with(|| Name { above, ..Name::default() });
        name.expire(now);
        name
    }

    fn existing(&mut self, key: &str, now: Tick) -> Option<&mut Name> {
        let name = self.names.get_mut(key)?;
        name.expire(now);
        Some(name)
    }

    /// Forgets names that are not used whenever there are twice as many, so that they do not pile up. Their last token is
    /// forgotten with them, earlier than Redis does.
    fn sweep(&mut self, now: Tick) {
        if self.names.len() >= self.sweep_at.max(FIRST_SWEEP) {
            let forgotten = &mut self.forgotten;
            self.names.retain(|_, name| {
                name.expire(now);
                let is_used = !name.is_unused(now);
                if let (false, Some(counter)) = (is_used, &name.counter) {
                    *forgotten = counter.last.max(*forgotten);
                }
                is_used
            });
            self.sweep_at = self.names.len() * 2;
        }
    }
}

impl Name {
    /// Drops the state that Redis would have expired.
    fn expire(&mut self, now: Tick) {
        if self.value.as_ref().is_some_and(|value| value.until().is_some_and(|end| end <= now)) {
            self.value = None;
        }
        if self.counter.as_ref().is_some_and(|counter| counter.until <= now) {
            self.counter = None;
        }
        let last = self.queue.iter().map(|place| place.until).max();
        if last.is_some_and(|last| last.after(QUEUE_MEMORY) <= now) {
            self.queue.clear();
        }
        if self.writers_until.is_some_and(|end| end <= now) {
            self.writers.clear();
        }
        self.readers.retain(|reader| reader.place.until > now);
        self.reads.retain(|_, end| *end > now);
        self.kept_reads.retain(|owner| self.reads.contains_key(owner));
        self.kept_writes.retain(|_, end| *end > now);
    }

    /// True if it has nothing but a counter. A reader's own end may outlast the hash, as its key does on Redis, and a reader
    /// that comes again goes on until then.
    fn is_unused(&self, now: Tick) -> bool {
        self.value.is_none()
            && self.reads.is_empty()
            && self.kept_writes.is_empty()
            && self.queue.is_empty()
            && self.writers.is_empty()
            && self.readers.is_empty()
            && self.permits.iter().all(|permit| permit.until <= now)
    }

    fn hash(&mut self) -> Result<Option<&mut Hash>, StoreError> {
        match &mut self.value {
            Some(Value::Hash(hash)) => Ok(Some(hash)),
            Some(Value::Number(_)) => Err(no_lock()),
            None => Ok(None),
        }
    }

    /// Enters a hold. An existing one is never shortened.
    // S-22.
    fn hold(&mut self, mode: Mode, side: Side, owner: &OwnerId, until: Tick) {
        let field = || Field { owner: owner.shared_field(), side, count: 1 };
        match &mut self.value {
            Some(Value::Hash(hash)) => {
                if !hash.has(owner.as_field(), side) {
                    hash.fields.push(field());
                }
                hash.until = hash.until.max(until);
            }
            _ => self.value = Some(Value::Hash(Hash { mode, fields: vec![field()], until })),
        }
    }

    fn renew(&mut self, kind: HoldKind, owner: &OwnerId, until: Tick, now: Tick) -> bool {
        if kind == HoldKind::Semaphore {
            return self.renew_permits(owner, until, now);
        }
        let field = owner.as_field();
        let held = self.reads.contains_key(field) && !self.kept_reads.contains(field);
        if kind == HoldKind::Read && !held {
            return false;
        }
        let Ok(Some(hash)) = self.hash() else { return false };
        // A count of zero: released, and kept until its end. For a reader, `kept_reads` records that.
        let kept = |field: &mut Field| kind != HoldKind::Read && field.count == 0;
        if hash.field(field, side_of(kind)).is_none_or(kept) {
            return false;
        }
        hash.until = hash.until.max(until);
        if let (HoldKind::Read, Some(end)) = (kind, self.reads.get_mut(field)) {
            *end = until.max(*end);
        }
        true
    }

    /// Returns the first of a series of new tokens.
    fn mint(&mut self, ask: &AcquireRequest, now: Tick) -> FencingToken {
        let more = u64::from(ask.tokens.max(1)) - 1;
        let first = self.next_token(now);
        self.set_counter(first.saturating_add(more), now.after(counter_expiry(ask)));
        FencingToken::new(first)
    }

    fn next_token(&self, now: Tick) -> u64 {
        self.last_token().saturating_add(1).max(now.as_nanos() / 1_000)
    }

    /// No token of this name was higher.
    fn last_token(&self) -> u64 {
        self.counter.as_ref().map_or(0, |counter| counter.last).max(self.above)
    }

    fn set_counter(&mut self, last: u64, until: Tick) {
        self.counter = Some(Counter { last, until });
    }
}

/// Returns how long a name's last token is remembered; the server's time keeps later ones above it.
fn counter_expiry(ask: &AcquireRequest) -> Duration {
    ask.target.token_ttl().max(ask.lease)
}

impl Value {
    fn until(&self) -> Option<Tick> {
        match self {
            Self::Hash(hash) => Some(hash.until),
            Self::Number(number) => number.until,
        }
    }
}

impl Hash {
    fn has(&self, owner: &str, side: Side) -> bool {
        self.fields.iter().any(|field| field.side == side && &*field.owner == owner)
    }

    fn field(&mut self, owner: &str, side: Side) -> Option<&mut Field> {
        self.fields.iter_mut().find(|field| field.side == side && &*field.owner == owner)
    }

    /// Removes a field. True if there was one.
    fn remove(&mut self, owner: &str, side: Side) -> bool {
        let before = self.fields.len();
        self.fields.retain(|field| field.side != side || &*field.owner != owner);
        self.fields.len() < before
    }
}

fn side_of(kind: HoldKind) -> Side {
    if kind == HoldKind::Write { Side::Write } else { Side::Only }
}

fn held(until: Tick, now: Tick) -> AcquireReply {
    AcquireReply::Held(Some(until.since(now)))
}

/// Gives an owner a place, at the end unless it already has one.
fn keep_place(places: &mut VecDeque<Place>, owner: &OwnerId, until: Tick) {
    match places.iter_mut().find(|place| &*place.owner == owner.as_field()) {
        Some(place) => place.until = until,
        None => places.push_back(Place { owner: owner.shared_field(), until }),
    }
}

/// True if the owner had a place.
fn leave_place(places: &mut VecDeque<Place>, owner: &OwnerId) -> bool {
    let before = places.len();
    places.retain(|place| &*place.owner != owner.as_field());
    places.len() < before
}

fn another_kind() -> StoreError {
    StoreError::new(StoreErrorKind::WrongType, "the key holds another kind of lock")
}

fn no_lock() -> StoreError {
    StoreError::new(StoreErrorKind::WrongType, "the key holds a value that is no lock")
}
