//! What a store is asked, and what it answers.

use std::sync::Arc;
use std::time::Duration;

use super::owner::OwnerId;
use super::target::{HoldKind, Target};
use crate::fence::FencingToken;

/// Take a lock.
#[derive(Debug, Clone)]
pub struct AcquireRequest {
    /// Which lock.
    pub target: Arc<Target>,
    /// For whom. Asking again for the same owner is not re-entry but the same request.
    // S-22.
    pub owner: OwnerId,
    /// How long the store keeps it without another word.
    pub lease: Duration,
    /// How many fencing tokens to reserve: one, and one for each local hand-off to come.
    // S-23.
    pub tokens: u32,
    /// For a kind that [has places](HoldKind::has_places): keep one, for so long without another
    /// word. `None` asks without waiting and leaves nothing behind.
    pub place: Option<Duration>,
    /// For a hold of the read side that stands already: may another reader join it? Refused where a
    /// writer waits.
    // S-27.
    pub joins: bool,
    /// How long to wait for the answer.
    pub timeout: Duration,
}

/// The answer to an [`AcquireRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcquireReply {
    /// It is ours; the reserved tokens are this one and those that follow it.
    Granted(FencingToken),
    /// Another owner has it; for so long if nothing happens, `None` if that has no end.
    Held(Option<Duration>),
    /// A waiter is to have it first, and no holder is in the way: for so long if that waiter gives no further sign
    /// of life.
    Behind(Option<Duration>),
    /// Nobody got it, because several asked a quorum of servers at once: ask again after a
    /// random pause.
    // S-29.
    Split,
    /// It was taken, but only so many replicas acknowledged that: undo it.
    // S-31.
    NotReplicated {
        /// How many did.
        acked: u32,
    },
}

/// Keep a lock.
#[derive(Debug, Clone)]
pub struct RenewRequest {
    /// Which lock.
    pub target: Arc<Target>,
    /// Whose hold.
    pub owner: OwnerId,
    /// The store keeps it at least so long from now; a longer time already given stays.
    pub lease: Duration,
}

/// Whether a hold still is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ownership {
    /// The owner holds the lock.
    Owner,
    /// It does not, whoever else may.
    NotOwner,
    /// Too few servers of a quorum answered to tell.
    // S-29.
    Unknown,
}

/// Called with the place of a [`RenewRequest`] among those that were sent together, and its answer.
/// A request whose answer was [`Unknown`](Ownership::Unknown) may get a second call with another one.
pub type OnRenewed = Arc<dyn Fn(usize, Ownership) + Send + Sync>;

/// Give a lock back.
#[derive(Debug, Clone)]
pub struct ReleaseRequest {
    /// Which lock.
    pub target: Arc<Target>,
    /// Whose hold.
    pub owner: OwnerId,
    /// Not now: have the store end the hold when so long has passed from now, whether that is sooner
    /// or later than its lease would, and tell its waiters to look again. Zero is now.
    pub keep: Duration,
    /// How long to wait for the answer.
    pub timeout: Duration,
}

/// The answer to a [`ReleaseRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseReply {
    /// It is free, or will be by itself when asked to be later, and its waiters have been told.
    Released {
        /// How many others were told that it is free, so that they can go first: other processes,
        /// and tasks of this one that want it as another kind of lock. Zero if it is not free yet.
        // S-14.
        others: u32,
    },
    /// This owner did not hold it; nothing was changed.
    NotOwner,
}

/// Show how often a hold has been entered. Nothing depends on it.
// S-6.
#[derive(Debug, Clone)]
pub struct CountRequest {
    /// Which lock.
    pub target: Arc<Target>,
    /// Whose hold.
    pub owner: OwnerId,
    /// Guards that share the hold.
    pub count: u32,
}

/// What to do with a count-down latch.
// S-30.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LatchRequest {
    /// Set the count if there is none. Answers 1 if that was done, else 0.
    SetCount(u32),
    /// Count one down. Answers what is left.
    CountDown,
    /// Answers what is left.
    Count,
    /// Remove it and tell its waiters. Answers 1 if there was one, else 0.
    Remove,
}

/// What a store knows of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// As what it is held, if anybody holds it. Redisson's plain and fair locks look alike and are
    /// both called a mutex.
    pub kind: Option<HoldKind>,
    /// Who holds it, in no order.
    pub holders: Vec<StoredHold>,
    /// What is left of the longest lease; `None` if nobody holds it or it has no end.
    pub remaining: Option<Duration>,
    /// The last fencing token that was handed out for the name.
    pub last_token: Option<FencingToken>,
    /// Waiters with a place in the store: the queue of a fair lock, announced writers.
    pub waiting: usize,
}

impl Inspection {
    /// Nothing is known of the name.
    #[must_use]
    pub fn nothing() -> Self {
        Self { kind: None, holders: Vec::new(), remaining: None, last_token: None, waiting: 0 }
    }
}

/// One hold as the store shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredHold {
    /// The owner's client: a uuid. Not the whole owner field, which would be enough to release it.
    pub client: String,
    /// How often it was entered, or how many permits it has.
    pub count: u32,
}

impl StoredHold {
    /// A hold of a client, from its owner field.
    #[must_use]
    pub fn new(owner_field: &str, count: u32) -> Self {
        let client = owner_field.split(':').next().unwrap_or_default().to_owned();
        Self { client, count }
    }
}
