//! The store: what keeps a lock outside this process, and the vocabulary to talk to it.
//!
//! A [`Store`] answers requests and passes on notices. It knows nothing of local waiters, leases or
//! guards; whoever asks decides what an answer means.

pub mod memory;
#[cfg(feature = "redis")]
pub mod redis;

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Clock;
use crate::error::StoreError;
use crate::fence::FencingToken;
use crate::key::LockKey;

/// What a [`Store`] method returns.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Which kind of lock a name is used as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockKind {
    /// Exclusive and re-entrant; Redisson's `getLock` and `getFencedLock`.
    Mutex,
}

impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mutex => "mutex",
        })
    }
}

/// A lock as the store sees it: its kind, its key, and the companions derived from the key once.
#[derive(Debug)]
pub struct Target {
    kind: LockKind,
    key: LockKey,
    channel: String,
    fence_counter: String,
    /// Hashed once: the gates look it up several times for each lock.
    hash: u64,
}

impl Target {
    pub(crate) fn mutex(key: LockKey) -> Arc<Self> {
        Arc::new(Self {
            kind: LockKind::Mutex,
            channel: key.mutex_channel(),
            fence_counter: key.fence_counter(),
            hash: HASHING.hash_one((LockKind::Mutex, &key)),
            key,
        })
    }

    /// A hash of kind and key, good for this process.
    pub(crate) fn hashed(&self) -> u64 {
        self.hash
    }

    /// The kind of lock.
    #[must_use]
    pub fn kind(&self) -> LockKind {
        self.kind
    }

    /// The lock's name, which is its key in Redis.
    #[must_use]
    pub fn key(&self) -> &LockKey {
        &self.key
    }

    /// The channel on which its releases are published.
    #[must_use]
    pub fn channel(&self) -> &str {
        &self.channel
    }

    /// The key of its fencing counter.
    #[must_use]
    pub fn fence_counter(&self) -> &str {
        &self.fence_counter
    }
}

impl PartialEq for Target {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.kind == other.kind && self.key == other.key
    }
}

impl Eq for Target {}

impl Hash for Target {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Seeded anew in each process, so that nobody can choose names that collide.
static HASHING: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Who holds a lock in the store: one client's uuid and the number of the hold (S-4).
///
/// Shown nowhere: whoever knows it can release the lock.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct OwnerId(Arc<str>);

impl OwnerId {
    pub(crate) fn new(client: &str, hold: u64) -> Self {
        Self(format!("{client}:{hold}").into())
    }

    /// The field name in the lock's hash: `uuid:n`.
    #[must_use]
    pub fn as_field(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hold = self.0.rsplit(':').next().unwrap_or_default();
        write!(f, "OwnerId(…:{hold})")
    }
}

/// Take a lock.
#[derive(Debug, Clone)]
pub struct AcquireRequest {
    /// Which lock.
    pub target: Arc<Target>,
    /// For whom. Asking again for the same owner is not re-entry but the same request (S-22).
    pub owner: OwnerId,
    /// How long the store keeps it without another word.
    pub lease: Duration,
    /// How many fencing tokens to reserve: one, and one for each local hand-off to come (S-23).
    pub tokens: u32,
    /// How long to wait for the answer.
    pub timeout: Duration,
}

/// The answer to an [`AcquireRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcquireReply {
    /// It is ours; the reserved tokens are this one and those that follow it.
    Granted(FencingToken),
    /// Somebody else has it, for so long if nothing happens; `None` if it never expires.
    Held(Option<Duration>),
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
}

/// Give a lock back.
#[derive(Debug, Clone)]
pub struct ReleaseRequest {
    /// Which lock.
    pub target: Arc<Target>,
    /// Whose hold.
    pub owner: OwnerId,
    /// How long to wait for the answer.
    pub timeout: Duration,
}

/// The answer to a [`ReleaseRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseReply {
    /// It is free, and its waiters have been told.
    Released {
        /// True if another process was told, so that it can go first (S-14).
        others_waiting: bool,
    },
    /// This owner did not hold it; nothing was changed.
    NotOwner,
}

/// Show how often a hold has been entered (S-6). Nothing depends on it.
#[derive(Debug, Clone)]
pub struct CountRequest {
    /// Which lock.
    pub target: Arc<Target>,
    /// Whose hold.
    pub owner: OwnerId,
    /// Guards that share the hold.
    pub count: u32,
}

/// Keeps locks where several processes see them.
///
/// # Contract
///
/// - Each request is atomic: nothing else happens to the lock between its check and its change.
/// - `acquire` sets the hold for its owner and never adds to it, so a repeated request changes
///   nothing (S-22). It mints tokens above every earlier one of that name (S-23).
/// - `renew` and `release` compare the owner and never create anything (S-19). `renew` answers its
///   requests in order.
/// - `subscribe` resolves only when a release that happens from then on is noticed (S-15).
/// - A dropped future may still take effect; whoever drops it must clean up (S-21). A request made
///   after it on the same store takes effect after it, unless a connection broke in between.
/// - Every future ends within the request's time-out; `timeout` for the others.
///
/// The contract suite in `tests/src/contract` holds for every implementation.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Takes a lock if it is free or the same owner's.
    fn acquire(&self, request: AcquireRequest) -> StoreFuture<'_, AcquireReply>;

    /// Moves the ends of leases, all in one go; one answer per request, in order.
    fn renew(
        &self,
        requests: Vec<RenewRequest>,
        timeout: Duration,
    ) -> StoreFuture<'_, Vec<Ownership>>;

    /// Frees a lock if the owner holds it, and tells its waiters.
    fn release(&self, request: ReleaseRequest) -> StoreFuture<'_, ReleaseReply>;

    /// Shows hold counts to whoever looks into the store.
    fn show_counts(&self, requests: Vec<CountRequest>, timeout: Duration) -> StoreFuture<'_, ()>;

    /// Listens for releases of a lock.
    fn subscribe(&self, target: &Arc<Target>, timeout: Duration) -> StoreFuture<'_, Subscription>;

    /// The clock by which this store's leases pass.
    fn clock(&self) -> Clock;

    /// Ends background work; called at the end of each shutdown that leaves nothing behind, so
    /// perhaps more than once.
    fn close(&self) {}
}

/// Hears of releases of one lock until dropped. A notice is a hint, never a grant (S-15).
pub struct Subscription {
    notices: watch::Receiver<u64>,
    /// Dropped with the subscription: whatever keeps it alive in the store.
    _registration: Box<dyn Send + Sync>,
}

impl Subscription {
    /// Wraps a store's counter of notices, with whatever ends the subscription when dropped.
    pub fn new(notices: watch::Receiver<u64>, registration: impl Send + Sync + 'static) -> Self {
        Self { notices, _registration: Box::new(registration) }
    }

    /// Forgets notices that came before now. Call it before the attempt that would act on them.
    pub fn forget_past(&mut self) {
        self.notices.mark_unchanged();
    }

    /// Waits for a notice that came since the last [`forget_past`](Self::forget_past).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no notice.
    pub async fn notified(&mut self) {
        if self.notices.changed().await.is_err() {
            // The store is closed; nobody will tell us anything any more.
            std::future::pending().await
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}
