//! All rules at once.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::faults::Faults;
use super::{Claim, Event, History, Op, Over, Refusal, Stamp, Wait};

/// Something that must not have happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// Two claims of one lock at the same time that exclude each other.
    Overlap(Claim, Claim),
    /// So many permits of one semaphore in use, more than the limit that any of these claims knew, since the last of them
    /// started.
    TooManyPermits(Vec<Claim>, u64),
    /// The second hold came after the first, but its token is not greater.
    TokenOrder(Claim, Claim),
    /// A hold without a token.
    NoToken(Claim),
    /// An effect at a time at which its task had no claim to the lock.
    LateEffect(Event),
    /// Two tasks have read the same value under one lock, so that one of their updates is gone.
    LostUpdate(Event, Event),
    /// A value changed while a reader had the lock.
    Changed(Event),
    /// A task that entered with its permits was counted as one too many: the limit is this.
    Crowd(Event, u64),
    /// A hold was lost though no fault was injected and its own deadline had not passed.
    Lost(Claim),
    /// A hold learned only at that time that its deadline had passed.
    LateNotice(Claim, Stamp),
    /// The release of the first was confirmed, though it had ended and the second had the lock when it was asked for.
    StaleRelease(Claim, Claim),
    /// The release of a hold failed before the hold's deadline and without a fault.
    NotReleased(Claim, Refusal),
    /// The second got the lock before the first, who had an earlier place in the queue.
    Overtaken(Claim, Claim),
    /// The server let a waiter go before one that waited longer.
    PassedBy(Event),
    /// The server had a key that never ends.
    Endless(Event),
    /// The server had some of the keys of a lock of several names, and not the others.
    InPart(Event),
    /// The lock was free from the one time to the other, and this task waited meanwhile.
    LeftFree(Wait, Stamp, Stamp),
    /// A process that asked for a lock after this fault had it only so much later.
    NoRecovery(String, Recovery),
    /// An event that cannot follow those before it: a grant on top of a hold of the same task, a grant or a deadline out
    /// of nowhere. The history was recorded wrongly.
    OutOfPlace(Event),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlap(one, other) => write!(f, "held at the same time: {one} and {other}"),
            Self::TooManyPermits(claims, sum) => {
                write!(f, "{sum} permits in use")?;
                claims.iter().try_for_each(|claim| write!(f, ", {claim}"))
            }
            Self::TokenOrder(one, next) => write!(f, "tokens out of order: {one}, then {next}"),
            Self::NoToken(claim) => write!(f, "no token: {claim}"),
            Self::LateEffect(event) => write!(f, "an effect outside of any claim: {event}"),
            Self::LostUpdate(one, other) => write!(f, "one update is gone: {one} or {other}"),
            Self::Changed(event) => write!(f, "the value changed under a reader: {event}"),
            Self::Crowd(event, limit) => write!(f, "more permits in use than {limit}: {event}"),
            Self::Lost(claim) => write!(f, "lost without a fault: {claim}"),
            Self::LateNotice(claim, at) => write!(f, "learned of its end only at {at}: {claim}"),
            Self::StaleRelease(one, other) => {
                write!(f, "released when another had it: {one}, then {other}")
            }
            Self::NotReleased(claim, Refusal { at, lost }) => {
                let why = if *lost { "the store had lost it" } else { "no answer" };
                write!(f, "not released without a fault ({why} at {at}): {claim}")
            }
            Self::Overtaken(one, other) => write!(f, "overtaken in the queue: {one} by {other}"),
            Self::LeftFree(wait, from, to) => {
                let span = to.since(*from);
                write!(f, "free for {span:?} until {to} while this one waited: {wait}")
            }
            Self::NoRecovery(fault, recovery) => write!(f, "after {fault}: {recovery}"),
            Self::PassedBy(event) => write!(f, "out of turn at the server: {event}"),
            Self::Endless(event) => write!(f, "a key without an end: {event}"),
            Self::InPart(event) => write!(f, "held in part: {event}"),
            Self::OutOfPlace(event) => write!(f, "cannot be at this place: {event}"),
        }
    }
}

/// Time limits that a history has to keep to. The other rules need none.
#[derive(Debug, Clone)]
pub struct Rules {
    /// For how long after a fault holds may still be lost because of it: the longest lease, and a command timeout.
    pub aftermath: Duration,
    /// How long after its deadline a hold may learn that it has passed: what a busy machine needs to run a task.
    pub notice: Duration,
    /// For how long a lock may be free while a task waits for it, but for faults and their aftermath, and for the time in
    /// which the machine was busy.
    pub free: Option<Duration>,
    /// How long after a fault each process has to have each lock again that it asks for.
    pub recovery: Option<Duration>,
}

impl Rules {
    /// For tasks that use locks all the time, with this lease, while faults are injected. Their clients wait so long for an
    /// answer.
    pub fn under_faults(lease: Duration, answer: Duration, recovery: Duration) -> Self {
        // Less than a lease, a wait or the poll cap, so that a notice or a release that is missed shows.
        let free = Duration::from_millis(500);
        let aftermath = lease + 2 * answer;
        Self { aftermath, free: Some(free), recovery: Some(recovery), ..Self::default() }
    }
}

impl Default for Rules {
    fn default() -> Self {
        let aftermath = Duration::from_secs(35);
        Self { aftermath, notice: Duration::from_secs(1), free: None, recovery: None }
    }
}

/// What a history amounts to.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// All events.
    pub events: usize,
    /// Locks acquired.
    pub claims: usize,
    /// Reads and writes under a lock.
    pub updates: usize,
    /// Holds that reported a loss.
    pub losses: usize,
    /// Faults injected.
    pub faults: usize,
    /// What would be a violation, had no fault of its time allowed it.
    pub allowed: Vec<Violation>,
    /// By fault, the slowest recovery.
    pub recoveries: BTreeMap<String, Recovery>,
    /// What must not have happened.
    pub violations: Vec<Violation>,
}

/// How long a process waited for a lock after a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// The process.
    pub process: u32,
    /// The lock.
    pub object: String,
    /// How long it took.
    pub took: Duration,
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, object, took } = self;
        write!(f, "process {process} has `{object}` again within {took:?}")
    }
}

impl Report {
    /// Panics with the whole report unless no rule was violated.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(self.violations.is_empty(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { events, claims, updates, losses, faults, allowed, recoveries, violations } =
            self;
        writeln!(
            f,
            "{claims} locks acquired, {updates} updates, {losses} losses, {faults} faults; {events} events"
        )?;
        for (fault, slowest) in recoveries {
            writeln!(f, "after {fault}, the slowest: {slowest}")?;
        }
        for violation in allowed {
            writeln!(f, "allowed by a fault: {violation}")?;
        }
        for violation in violations {
            writeln!(f, "VIOLATION: {violation}")?;
        }
        write!(f, "{} violations", violations.len())
    }
}

impl History {
    /// Checks all rules.
    pub fn check(&self, rules: &Rules) -> Report {
        let replay = self.replay();
        let claims = &replay.claims;
        let faults = Faults::of(self, claims, rules);
        let recoveries = faults.recoveries(self);
        let mut found = replay.violations;
        found.extend(super::exclusion::overlaps(claims));
        found.extend(super::exclusion::too_many_permits(claims));
        found.extend(super::exclusion::crowds(self.events(), claims));
        found.extend(super::tokens::order(claims));
        found.extend(super::losses::losses(claims, rules.notice));
        found.extend(super::losses::stale_releases(claims));
        found.extend(super::losses::not_released(claims));
        found.extend(super::losses::lost_updates(self.events()));
        found.extend(super::waits::overtakes(self.events(), claims));
        if let Some(most) = rules.free {
            found.extend(super::waits::left_free(claims, &replay.waits, most));
        }
        if let Some(most) = rules.recovery {
            let slow = recoveries.iter().filter(|(_, slowest)| slowest.took > most);
            found.extend(slow.map(|(fault, it)| Violation::NoRecovery(fault.clone(), it.clone())));
        }
        let (allowed, violations) = found.into_iter().partition(|it| faults.allow(it));
        let is_update = |event: &&Event| matches!(event.op, Op::Updated { .. });
        Report {
            events: self.events().len(),
            claims: claims.len(),
            updates: self.events().iter().filter(is_update).count(),
            losses: claims.iter().filter(|it| matches!(it.over, Some((Over::Loss, _)))).count(),
            faults: faults.count(),
            allowed,
            recoveries,
            violations,
        }
    }
}
