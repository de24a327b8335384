//! A client: a process in which one task acquires, holds and releases, and the releaser undoes what was dropped.

use crate::terms::{ClientId, Kind, LEASE, Owner, SECOND_RELEASE, Tick, WAITER_LEASE};

/// What the task of a client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Nothing.
    Idle,
    /// It waits for the server's answer to an acquire.
    Asking {
        /// For this owner.
        owner: Owner,
        /// From before the request was written.
        sent_at: Tick,
        /// Number of the request in this tick.
        number: u8,
    },
    /// It sleeps until it asks again.
    Waiting {
        /// For this owner.
        owner: Owner,
        /// When it asked last.
        asked_at: Tick,
        /// Number of that request in its tick.
        number: u8,
        /// False if the outcome of that request is unknown.
        is_known: bool,
    },
    /// It believes to hold the lock.
    Holding(Held),
    /// It does nothing any more.
    Crashed,
}

/// A hold as its client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Held {
    /// The owner id.
    pub owner: Owner,
    /// The fencing token.
    pub token: u16,
    /// When the client stops to act.
    // S-8, S-12.
    pub deadline: Tick,
    /// When the watchdog sent the last renewal.
    pub renewed_at: Tick,
    /// True while the client is between the check of the deadline and the effect of what it does.
    pub is_in_step: bool,
}

/// A release that the releaser repeats until it is answered.
// S-20.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Job {
    /// The owner to release.
    pub owner: Owner,
    /// When the server has forgotten it anyway.
    pub until: Tick,
    /// True if an acquire may be under way: after the answer, the release is sent once more.
    // S-21.
    pub is_unsettled: bool,
    /// When it was sent, unless it has to be sent.
    pub sent_at: Option<Tick>,
    /// When the first release was answered.
    pub answered_at: Option<Tick>,
}

impl Job {
    /// True if the release is sent now.
    pub fn is_due(&self, now: Tick) -> bool {
        let pause_is_over = self.answered_at.is_none_or(|at| now >= at + SECOND_RELEASE);
        pause_is_over && self.sent_at.is_none_or(|at| at < now)
    }
}

/// A client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Client {
    /// What its task does.
    pub phase: Phase,
    /// How many acquires it has begun.
    pub begun: u8,
    /// True once this acquire was refused. From then on, a waiter for a mutex is subscribed.
    pub was_refused: bool,
    /// True from a notification on until the waiter asks again.
    pub is_woken: bool,
    /// True if an earlier request of this acquire may take effect late.
    pub is_unsettled: bool,
    /// What its releaser has to do.
    pub jobs: Vec<Job>,
}

impl Client {
    /// A client that has done nothing.
    pub fn new() -> Self {
        Self {
            phase: Phase::Idle,
            begun: 0,
            was_refused: false,
            is_woken: false,
            is_unsettled: false,
            jobs: Vec::new(),
        }
    }

    /// The owner id of the acquire or the hold under way.
    pub fn owner(&self) -> Option<Owner> {
        match self.phase {
            Phase::Asking { owner, .. } | Phase::Waiting { owner, .. } => Some(owner),
            Phase::Holding(held) => Some(held.owner),
            Phase::Idle | Phase::Crashed => None,
        }
    }

    /// True if it acquires, holds or releases as this owner.
    pub fn knows(&self, owner: Owner) -> bool {
        self.owner() == Some(owner) || self.jobs.iter().any(|job| job.owner == owner)
    }

    /// The hold, if the client believes to have one.
    pub fn held(&self) -> Option<Held> {
        match self.phase {
            Phase::Holding(held) => Some(held),
            _ => None,
        }
    }

    /// True if it may act as the holder now.
    // S-12.
    pub fn acts(&self, now: Tick) -> bool {
        self.held().is_some_and(|held| now < held.deadline)
    }

    /// True if it is in an acquire.
    pub fn is_acquiring(&self) -> bool {
        matches!(self.phase, Phase::Asking { .. } | Phase::Waiting { .. })
    }

    /// True if it hears of releases. A waiter of a fair lock subscribes before its first request.
    // S-15.
    pub fn listens(&self, kind: Kind) -> bool {
        self.is_acquiring() && (self.was_refused || kind == Kind::Fair)
    }

    /// True if it accepts another acquire. The gate of a mutex waits for the answer to the last release.
    // S-14.
    pub fn may_begin(&self, kind: Kind) -> bool {
        let is_answered = |job: &Job| job.answered_at.is_some();
        self.phase == Phase::Idle && (kind == Kind::Fair || self.jobs.iter().all(is_answered))
    }

    /// Begins an acquire with an owner id of its own.
    // S-4.
    pub fn begin(&mut self, client: ClientId, now: Tick) -> Owner {
        let owner = Owner { client, number: self.begun };
        self.phase = Phase::Asking { owner, sent_at: now, number: 0 };
        self.begun += 1;
        self.was_refused = false;
        self.is_woken = false;
        self.is_unsettled = false;
        owner
    }

    /// Asks once more with the same owner id. Returns it, and the number of the request.
    // S-22.
    pub fn ask_again(&mut self, now: Tick) -> Option<(Owner, u8)> {
        let Phase::Waiting { owner, asked_at, number, .. } = self.phase else { return None };
        let number = if asked_at == now { number + 1 } else { 0 };
        self.is_woken = false;
        self.phase = Phase::Asking { owner, sent_at: now, number };
        Some((owner, number))
    }

    /// Ends the acquire or the hold, and leaves its release to the releaser, which sends it now.
    // S-20, S-21.
    pub fn leave(&mut self, owner: Owner, is_unsettled: bool, now: Tick) {
        self.phase = Phase::Idle;
        // A place may last longer than a hold.
        let until = now + LEASE.max(WAITER_LEASE);
        let job = Job { owner, until, is_unsettled, sent_at: Some(now), answered_at: None };
        self.jobs.push(job);
    }

    /// Crashes.
    pub fn crash(&mut self) {
        *self = Self { phase: Phase::Crashed, begun: self.begun, ..Self::new() };
    }
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}
