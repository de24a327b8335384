//! The rules of the memory store: what each request does to the table at a given time.
//!
//! Pure and without a runtime, so that the rules can be tested by themselves.

use std::collections::HashMap;
use std::time::Duration;

use super::super::{
    AcquireRequest, CountRequest, OwnerId, Ownership, ReleaseRequest, RenewRequest,
};
use crate::clock::Tick;

/// How many keys the table holds before it looks for expired ones.
const FIRST_SWEEP: usize = 1024;

/// How long a name's last token is remembered; the server's time keeps later ones above it (S-23).
const TOKEN_MEMORY: Duration = Duration::from_secs(24 * 60 * 60);

/// Every lock that is held, and the last token of every name that was held lately.
#[derive(Default)]
pub(super) struct Table {
    holds: HashMap<String, Hold>,
    tokens: HashMap<String, Counter>,
    sweep_at: usize,
}

struct Counter {
    last: u64,
    until: Tick,
}

struct Hold {
    owner: OwnerId,
    count: u32,
    until: Tick,
}

impl Table {
    /// The first of the reserved tokens, or what is left of the holder's lease.
    pub(super) fn acquire(&mut self, request: &AcquireRequest, now: Tick) -> Result<u64, Duration> {
        let key = request.target.key().as_str();
        let until = now.after(request.lease);
        match self.holds.get_mut(key).filter(|hold| hold.until > now) {
            // S-22: the same request once more. It must not shorten what `extend` gave.
            Some(hold) if hold.owner == request.owner => hold.until = hold.until.max(until),
            Some(hold) => return Err(hold.until.since(now)),
            None => {
                self.sweep(now);
                let hold = Hold { owner: request.owner.clone(), count: 1, until };
                self.holds.insert(key.to_owned(), hold);
            }
        }
        Ok(self.mint(key, request.tokens, now))
    }

    /// The first of a row of new tokens (S-23).
    fn mint(&mut self, key: &str, tokens: u32, now: Tick) -> u64 {
        let micros = now.as_nanos() / 1_000;
        let counter = self.tokens.entry(key.to_owned()).or_insert(Counter { last: 0, until: now });
        let first = (counter.last + 1).max(micros);
        counter.last = first + u64::from(tokens.max(1)) - 1;
        counter.until = now.after(TOKEN_MEMORY);
        first
    }

    pub(super) fn renew(&mut self, request: &RenewRequest, now: Tick) -> Ownership {
        match self.owned(request.target.key().as_str(), &request.owner, now) {
            None => Ownership::NotOwner,
            Some(hold) => {
                hold.until = hold.until.max(now.after(request.lease));
                Ownership::Owner
            }
        }
    }

    pub(super) fn release(&mut self, request: &ReleaseRequest, now: Tick) -> Ownership {
        let key = request.target.key().as_str();
        if self.owned(key, &request.owner, now).is_none() {
            return Ownership::NotOwner;
        }
        self.holds.remove(key);
        Ownership::Owner
    }

    pub(super) fn show_count(&mut self, request: &CountRequest, now: Tick) {
        if let Some(hold) = self.owned(request.target.key().as_str(), &request.owner, now) {
            hold.count = request.count;
        }
    }

    pub(super) fn holders(&self, key: &str, now: Tick) -> (Vec<(String, u32)>, Duration) {
        match self.holds.get(key).filter(|hold| hold.until > now) {
            None => (Vec::new(), Duration::ZERO),
            Some(hold) => {
                (vec![(hold.owner.as_field().to_owned(), hold.count)], hold.until.since(now))
            }
        }
    }

    fn owned(&mut self, key: &str, owner: &OwnerId, now: Tick) -> Option<&mut Hold> {
        self.holds.get_mut(key).filter(|hold| hold.until > now && hold.owner == *owner)
    }

    /// Drops what has expired whenever the table has doubled, so that names do not pile up.
    fn sweep(&mut self, now: Tick) {
        if self.holds.len() + self.tokens.len() >= self.sweep_at.max(FIRST_SWEEP) {
            self.holds.retain(|_, hold| hold.until > now);
            self.tokens.retain(|_, counter| counter.until > now);
            self.sweep_at = (self.holds.len() + self.tokens.len()) * 2;
        }
    }
}
