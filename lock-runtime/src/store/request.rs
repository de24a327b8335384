//! Requests to a store, and its replies.

use std::sync::Arc;
use std::time::Duration;

use super::client_id::is_ours;
use super::kind::HoldKind;
use super::owner::OwnerId;
use super::target::Target;
use crate::fence::FencingToken;

/// A request to acquire a lock.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AcquireRequest {
    /// The lock.
    pub target: Arc<Target>,
    /// The owner of the hold. A second request of the same owner is not a re-entry but a repetition.
    // S-22.
    pub owner: OwnerId,
    /// How long the store keeps the hold unless it is renewed.
    pub lease: Duration,
    /// How many fencing tokens to reserve: one, and one for each local hand-off to come.
    // S-23.
    pub tokens: u32,
    /// For a kind that [has places](HoldKind::has_places): keep a place for the waiter, for this long unless it
    /// is refreshed. `None` asks without waiting and leaves nothing behind.
    pub place: Option<Duration>,
    /// Acquires a read hold only if it exists already and another reader may join it, which a waiting writer
    /// prevents; or if the write hold around it exists.
    // S-27.
    pub joins: bool,
    /// How long to wait for the answer.
    pub timeout: Duration,
}

impl AcquireRequest {
    /// A request for one fencing token, without a place, of an owner that does not join a hold.
    #[must_use]
    pub fn new(target: Arc<Target>, owner: OwnerId, lease: Duration, timeout: Duration) -> Self {
        Self { target, owner, lease, tokens: 1, place: None, joins: false, timeout }
    }

    /// Sets [`tokens`](Self::tokens).
    #[must_use]
    pub fn with_tokens(self, tokens: u32) -> Self {
        Self { tokens, ..self }
    }

    /// Sets [`place`](Self::place).
    #[must_use]
    pub fn with_place(self, place: Option<Duration>) -> Self {
        Self { place, ..self }
    }

    /// Sets [`joins`](Self::joins).
    #[must_use]
    pub fn with_joins(self, joins: bool) -> Self {
        Self { joins, ..self }
    }
}

/// The answer to an [`AcquireRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcquireReply {
    /// The owner has the lock; the reserved tokens are this one and those that follow it.
    Granted(FencingToken),
    /// Another owner has the lock, for this long unless it renews or releases it; `None` if the hold has no
    /// end.
    Held(Option<Duration>),
    /// The lock is free, but a waiter goes first, for this long unless it gives another sign of life.
    Behind(Option<Duration>),
    /// As [`Held`](Self::Held) or [`Behind`](Self::Behind), while the holder or the first waiter of a fair lock is a
    /// client of Redisson, which notifies this waiter on a channel of its own.
    // S-26.
    BehindRedisson {
        /// True if Redisson's client holds the lock; false if the lock is free and that client goes first.
        is_held: bool,
        /// For how long, unless it gives another sign of life; `None` if that has no end.
        left: Option<Duration>,
    },
    /// No contender got the lock, because several asked a quorum of servers at once: ask again after a random pause.
    // S-29.
    Split,
    /// The owner has the lock, but too few replicas acknowledged it: undo it.
    // S-31.
    NotReplicated {
        /// How many replicas acknowledged it.
        acked: u32,
    },
}

/// A request to renew a hold.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RenewRequest {
    /// The lock.
    pub target: Arc<Target>,
    /// The owner of the hold.
    pub owner: OwnerId,
    /// The store keeps the hold for at least this long from now; a later end stays. Zero only asks whether the owner
    /// holds the lock, and changes nothing.
    pub lease: Duration,
}

impl RenewRequest {
    /// A request for at least `lease` from now.
    #[must_use]
    pub fn new(target: Arc<Target>, owner: OwnerId, lease: Duration) -> Self {
        Self { target, owner, lease }
    }
}

/// Whether an owner holds a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ownership {
    /// The owner holds the lock.
    Owner,
    /// The owner does not hold the lock; another owner may.
    NotOwner,
    /// Too few servers of a quorum answered to tell.
    // S-29.
    Unknown,
}

/// Called with the place of a [`RenewRequest`] among those that were sent together, and its answer.
/// A request whose answer was [`Unknown`](Ownership::Unknown) may get a second call with another one.
pub type OnRenewed = Arc<dyn Fn(usize, Ownership) + Send + Sync>;

/// A request to release a hold.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReleaseRequest {
    /// The lock.
    pub target: Arc<Target>,
    /// The owner of the hold.
    pub owner: OwnerId,
    /// If not zero, the store ends the hold only after this time from now, whether that is sooner or later than its
    /// lease would, and notifies its waiters now.
    pub keep: Duration,
    /// For how long the hold may last from now if this request is not run. A store of several servers, which answers once a
    /// majority has released, repeats it that long at the others.
    // S-29.
    pub lasts: Duration,
    /// How long to wait for the answer.
    pub timeout: Duration,
}

impl ReleaseRequest {
    /// A request to release the hold now.
    #[must_use]
    pub fn new(target: Arc<Target>, owner: OwnerId, timeout: Duration) -> Self {
        let (keep, lasts) = (Duration::ZERO, Duration::ZERO);
        Self { target, owner, keep, lasts, timeout }
    }

    /// Sets [`keep`](Self::keep).
    #[must_use]
    pub fn with_keep(self, keep: Duration) -> Self {
        Self { keep, ..self }
    }

    /// Sets [`lasts`](Self::lasts).
    #[must_use]
    pub fn with_lasts(self, lasts: Duration) -> Self {
        Self { lasts, ..self }
    }
}

/// The answer to a [`ReleaseRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseReply {
    /// The lock is free, or will be at the requested time, and its waiters have been notified.
    Released {
        /// How many others were notified that it is free, so that they can go first: other processes, and
        /// waiters of this process for another kind of lock. Zero if it is not free yet.
        // S-14.
        others: u32,
    },
    /// The owner did not hold the lock; nothing has changed.
    NotOwner,
}

/// An operation on a count-down latch, and its answer.
// S-30.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LatchRequest {
    /// Set the count if there is none. Answers 1 if that was done, else 0.
    SetCount(u32),
    /// Count down by one. Answers the remaining count.
    CountDown,
    /// Answers the remaining count.
    Count,
    /// Remove it and notify its waiters. Answers 1 if there was one, else 0.
    Remove,
}

impl LatchRequest {
    /// True if a request that may have run can be sent again.
    pub(crate) fn is_repeatable(self) -> bool {
        self == Self::Count
    }
}

/// The store's state of a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The kind of lock that is held, if it is held. Redisson's plain and fair locks look alike, so both are a mutex.
    pub kind: Option<HoldKind>,
    /// The holders, in no order.
    pub holders: Vec<StoredHold>,
    /// The remaining time of the longest lease; `None` if the name is not held or the lease has no end.
    pub remaining: Option<Duration>,
    /// The last fencing token that was issued for the name. A [`MemoryStore`](super::MemoryStore) tells it while the name is
    /// in use: one counter serves all names that are not.
    pub last_token: Option<FencingToken>,
    /// Waiters with a place in the store: the queue of a fair lock, announced writers.
    pub waiting: usize,
    /// The first hundred waiters of a fair lock's queue, in order.
    pub queue: Vec<StoredWaiter>,
    /// The permits of a semaphore that are free; `None` if no permit is in use, since a free semaphore is a plain number.
    pub free_permits: Option<u32>,
}

/// One hold in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredHold {
    /// The owner's client: a uuid, or empty for a permit of Redisson's, which names no client.
    pub client: String,
    /// The number of the Java thread, for a hold of Redisson's. The number of a hold of this library is not shown: with the
    /// client's uuid it would be enough to release the lock.
    pub thread: Option<u64>,
    /// How often it was entered, or how many permits it has.
    pub count: u32,
}

impl StoredHold {
    /// A hold of a client, from its owner field.
    pub(crate) fn new(owner_field: &str, count: u32) -> Self {
        let (client, thread) = client_and_thread(owner_field);
        Self { client, thread, count }
    }
}

/// One waiter with a place in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredWaiter {
    /// Its client: a uuid.
    pub client: String,
    /// The number of the Java thread, for a waiter of Redisson's.
    pub thread: Option<u64>,
}

impl StoredWaiter {
    /// A waiter of a client, from its owner field.
    pub(crate) fn new(owner_field: &str) -> Self {
        let (client, thread) = client_and_thread(owner_field);
        Self { client, thread }
    }
}

/// The client of an owner and, if it is one of Redisson's, the thread.
fn client_and_thread(owner_field: &str) -> (String, Option<u64>) {
    let mut parts = owner_field.split(':');
    let client = parts.next().unwrap_or_default();
    let thread = parts.next().filter(|_| !is_ours(client)).and_then(|thread| thread.parse().ok());
    (client.to_owned(), thread)
}
