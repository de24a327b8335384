//! Mutexes, one or several at once.
// S-25, S-28.

use super::{Change, Mode, Name, Reply, Side, Table, another_kind, counter_expiry, held};
use crate::clock::Tick;
use crate::error::StoreError;
use crate::fence::FencingToken;
use crate::store::{AcquireReply, AcquireRequest, OwnerId, Target};

impl Name {
    pub(super) fn acquire_mutex(&mut self, ask: &AcquireRequest, now: Tick) -> Reply {
        if let Some(hash) = self.hash()?
            && !hash.has(ask.owner.as_field(), Side::Only)
        {
            return match hash.mode {
                Mode::Plain => Ok(held(hash.until, now)),
                _ => Err(another_kind()),
            };
        }
        let token = self.mint(ask, now);
        self.hold(Mode::Plain, Side::Only, &ask.owner, now.after(ask.lease));
        Ok(AcquireReply::Granted(token))
    }

    pub(super) fn release_mutex(
        &mut self,
        lock: &Target,
        owner: &OwnerId,
        change: &mut Change,
    ) -> bool {
        if !self.has_field(owner) {
            return false;
        }
        self.value = None;
        change.notify(lock.channel());
        true
    }

    /// True if the owner has a hold of any kind here.
    pub(super) fn has_field(&mut self, owner: &OwnerId) -> bool {
        matches!(self.hash(), Ok(Some(hash)) if hash.has(owner.as_field(), Side::Only))
    }

    /// Returns when another owner's hold ends, if there is one.
    fn in_the_way(&mut self, owner: &OwnerId) -> Result<Option<Tick>, StoreError> {
        match self.hash()? {
            Some(hash) if hash.mode != Mode::Plain => Err(another_kind()),
            Some(hash) if !hash.has(owner.as_field(), Side::Only) => Ok(Some(hash.until)),
            _ => Ok(None),
        }
    }
}

impl Table {
    /// Acquires all or none, with one token above all counters.
    pub(super) fn acquire_multi(&mut self, ask: &AcquireRequest, now: Tick) -> Reply {
        let mut in_the_way = None;
        for lock in ask.target.locks() {
            let name = self.name(lock.key().as_str(), now);
            in_the_way = in_the_way.max(name.in_the_way(&ask.owner)?);
        }
        if let Some(until) = in_the_way {
            return Ok(held(until, now));
        }
        let mut first = 0;
        for lock in ask.target.locks() {
            first = first.max(self.name(lock.key().as_str(), now).next_token(now));
        }
        for lock in ask.target.locks() {
            let name = self.name(lock.key().as_str(), now);
            let last = first.saturating_add(u64::from(ask.tokens.max(1)) - 1);
            name.set_counter(last, now.after(counter_expiry(ask)));
            name.hold(Mode::Plain, Side::Only, &ask.owner, now.after(ask.lease));
        }
        Ok(AcquireReply::Granted(FencingToken::new(first)))
    }
}
