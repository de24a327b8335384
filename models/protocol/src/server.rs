//! The server: one lock, and the scripts that change it. Each runs whole.

use crate::Reached;
use crate::terms::{Bug, Kind, LEASE, Owner, TOKENS_PER_TICK, Tick, WAITER_LEASE};

/// The lock hash: one owner, and the expiry of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hold {
    /// The only field.
    pub owner: Owner,
    /// When the key expires. `None` only with [`Bug::NoExpiry`].
    pub ends: Option<Tick>,
}

/// A place in the queue of a fair lock, with its score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// The waiter.
    pub owner: Owner,
    /// When the waiter counts as dead.
    pub ends: Tick,
}

/// All keys of the lock, and the server's clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Server {
    /// The lock hash.
    pub hold: Option<Hold>,
    /// The fencing counter.
    pub counter: Option<u16>,
    /// The queue of a fair lock with its scores.
    pub queue: Vec<Place>,
    /// How far its clock is ahead of the clients' clocks.
    pub ahead: Tick,
    /// True from a release on until the next grant.
    pub was_released: bool,
}

/// A script's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// The owner holds the lock, with this token.
    Granted(u16),
    /// Another owner holds the lock, or is first in the queue.
    Refused,
    /// The hold was renewed.
    Renewed,
    /// The lock was released.
    Released,
    /// The owner does not hold the lock.
    NotOwner,
}

/// The waiters that a script notifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notified {
    /// No waiter.
    None,
    /// All that have subscribed: the channel of a mutex.
    All,
    /// The first in the queue that has subscribed: the channels of a fair lock.
    First,
}

/// What the scripts need to know of the run.
#[derive(Debug)]
pub struct Rules<'a> {
    /// Kind of the lock.
    pub kind: Kind,
    /// The rule that is turned off.
    pub bug: Option<Bug>,
    /// Notes what the scripts did.
    pub reached: &'a Reached,
}

impl Rules<'_> {
    /// True with this bug.
    pub fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }
}

impl Server {
    /// The server's time.
    pub fn time(&self, now: Tick) -> Tick {
        now + self.ahead
    }

    /// The token of a grant now, if the counter is behind the clock.
    // S-23.
    pub fn lowest_token(&self, now: Tick) -> u16 {
        u16::from(self.time(now)) * TOKENS_PER_TICK + 1
    }

    /// True if this owner has the lock or a place in the queue.
    pub fn knows(&self, owner: Owner) -> bool {
        self.hold.is_some_and(|hold| hold.owner == owner)
            || self.queue.iter().any(|place| place.owner == owner)
    }

    /// Removes the lock if its expiry has come.
    pub fn expire(&mut self, now: Tick) {
        let now = self.time(now);
        self.hold = self.hold.filter(|hold| hold.ends.is_none_or(|ends| ends > now));
    }

    /// `mutex_acquire.lua` and `fair_acquire.lua`.
    pub fn acquire(&mut self, rules: &Rules<'_>, owner: Owner, now: Tick) -> (Answer, Notified) {
        match rules.kind {
            Kind::Mutex => (self.acquire_mutex(rules, owner, now), Notified::None),
            Kind::Fair => self.acquire_fair(rules, owner, now),
        }
    }

    /// `mutex_acquire.lua`.
    fn acquire_mutex(&mut self, rules: &Rules<'_>, owner: Owner, now: Tick) -> Answer {
        match self.hold {
            Some(hold) if hold.owner != owner => Answer::Refused,
            _ => self.grant(rules, owner, now),
        }
    }

    /// `fair_acquire.lua`, without what it does for Redisson's clients.
    fn acquire_fair(&mut self, rules: &Rules<'_>, owner: Owner, now: Tick) -> (Answer, Notified) {
        let is_free = self.hold.is_none();
        let is_ours = self.hold.is_some_and(|hold| hold.owner == owner);
        let swept = (is_free || is_ours) && self.sweep(rules, Some(owner), now);
        let head = self.queue.first().map(|place| place.owner);
        let is_next = head.is_none_or(|head| head == owner) || rules.has(Bug::PassesQueue);
        if is_ours || is_free && is_next {
            self.queue.retain(|place| place.owner != owner);
            return (self.grant(rules, owner, now), Notified::None);
        }
        let ends = self.time(now) + WAITER_LEASE;
        match self.queue.iter_mut().find(|place| place.owner == owner) {
            Some(place) => {
                place.ends = ends;
                if !is_free {
                    self.sweep(rules, Some(owner), now);
                }
            }
            None => self.queue.push(Place { owner, ends }),
        }
        let notified = if swept && is_free { Notified::First } else { Notified::None };
        (Answer::Refused, notified)
    }

    /// The part that both scripts have: `mint.lua`, the hash, and `set_end.lua`.
    fn grant(&mut self, rules: &Rules<'_>, owner: Owner, now: Tick) -> Answer {
        let token = self.mint(rules, now);
        let new_end = self.time(now) + LEASE;
        let ends = match self.hold {
            None => new_end,
            // A repeated request of the holder never shortens an extended lease.
            Some(hold) => new_end.max(hold.ends.unwrap_or_default()),
        };
        let reached = if self.hold.is_some() { Reached::REPEATED_GRANT } else { Reached::GRANT };
        rules.reached.note(reached);
        self.hold = Some(Hold { owner, ends: (!rules.has(Bug::NoExpiry)).then_some(ends) });
        self.was_released = false;
        Answer::Granted(token)
    }

    /// `mint.lua`, for a block of one token.
    fn mint(&mut self, rules: &Rules<'_>, now: Tick) -> u16 {
        let next = self.counter.map_or(1, |last| last + 1);
        let by_time = self.lowest_token(now);
        let token = if rules.has(Bug::TokenWithoutTime) { next } else { next.max(by_time) };
        self.counter = Some(token);
        token
    }

    /// `renew_plain.lua`, for one hold.
    pub fn renew(&mut self, rules: &Rules<'_>, owner: Owner, now: Tick) -> Answer {
        let ends = self.time(now) + LEASE;
        match &mut self.hold {
            Some(hold) if hold.owner == owner || rules.has(Bug::RenewalWithoutOwner) => {
                // Never shortens.
                hold.ends = hold.ends.map(|old| old.max(ends));
                Answer::Renewed
            }
            None if rules.has(Bug::RenewalCreates) => {
                self.hold = Some(Hold { owner, ends: Some(ends) });
                Answer::Renewed
            }
            _ => Answer::NotOwner,
        }
    }

    /// `mutex_release.lua` and `fair_release.lua`.
    pub fn release(&mut self, rules: &Rules<'_>, owner: Owner, now: Tick) -> (Answer, Notified) {
        let without_owner = rules.has(Bug::ReleaseWithoutOwner);
        let held = self.hold.is_some_and(|hold| hold.owner == owner || without_owner);
        if held {
            self.hold = None;
            self.was_released = true;
        }
        let answer = if held { Answer::Released } else { Answer::NotOwner };
        let notified = match rules.kind {
            Kind::Mutex if held => Notified::All,
            Kind::Mutex => Notified::None,
            Kind::Fair => self.leave_queue(rules, owner, held, now),
        };
        (answer, notified)
    }

    /// What `fair_release.lua` does beyond the release.
    fn leave_queue(&mut self, rules: &Rules<'_>, owner: Owner, held: bool, now: Tick) -> Notified {
        if !held {
            self.queue.retain(|place| place.owner != owner);
        }
        if self.hold.is_some() {
            return Notified::None;
        }
        self.sweep(rules, None, now);
        match self.queue.is_empty() || rules.has(Bug::HeadNotNotified) {
            true => Notified::None,
            false => Notified::First,
        }
    }

    /// Removes dead waiters from the head of the queue, but not the one that asks. True if there were some.
    fn sweep(&mut self, rules: &Rules<'_>, asking: Option<Owner>, now: Tick) -> bool {
        if rules.has(Bug::NoSweep) {
            return false;
        }
        let now = self.time(now);
        let is_dead = |place: &Place| place.ends <= now && asking != Some(place.owner);
        let dead = self.queue.iter().take_while(|place| is_dead(place)).count();
        self.queue.drain(..dead);
        if dead > 0 {
            rules.reached.note(Reached::SWEEP);
        }
        dead > 0
    }
}
