//! What a resource needs of a hold to refuse the writes of earlier ones: [`Fenced`], [`Fences`].
// S-37.

use std::fmt;

use super::FencingToken;
use crate::error::LockError;
use crate::key::LockKey;

/// A hold whose token orders it among all holds of its names: [`LockGuard`](crate::LockGuard), [`LockWatch`](crate::guard::LockWatch) and, in `lock-tower`, `HeldLock`.
///
/// The crate `lock-sqlx` adds a method for transactions to everything that implements this. For a resource of another kind,
/// store the token by name, and refuse a smaller one in the same step.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use lock_runtime::LockClient;
/// use lock_runtime::fence::Fenced;
///
/// let guard = LockClient::in_memory().multi_lock(["account:9", "account:7"]).lock().await?;
/// let fences = guard.fences()?;
/// let names: Vec<_> = fences.names().map(|name| name.as_str()).collect();
/// assert_eq!(names, ["account:7", "account:9"]);
/// assert_eq!(fences.token(), guard.token());
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub trait Fenced {
    /// Returns the names of the hold and its token. It may be lost by now: whether it is too late is for the resource to say.
    ///
    /// # Errors
    ///
    /// [`NotExclusive`] for a read lock and a semaphore, and for several locks of which one is such.
    fn fences(&self) -> Result<Fences, NotExclusive>;
}

/// The names and the token of a hold that excludes all others: returned by [`Fenced::fences`].
#[derive(Debug, Clone)]
pub struct Fences {
    names: Vec<LockKey>,
    token: FencingToken,
}

impl Fences {
    pub(crate) fn new(mut names: Vec<LockKey>, token: FencingToken) -> Self {
        names.sort_unstable();
        names.dedup();
        Self { names, token }
    }

    /// Returns the full names of all its locks, namespaces included, sorted and each once. Two transactions that store tokens in
    /// this order never wait for each other.
    pub fn names(&self) -> impl Iterator<Item = &LockKey> {
        self.names.iter()
    }

    /// Returns the token, which is the same for all names.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.token
    }
}

/// The error for a hold that others may have at the same time, so that its token does not say who is late.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the {kind} {name:?} does not exclude others, so its token does not say who is late; fence with a mutex, a fair mutex, the write side of a \
     read/write lock, or several of these"
)]
pub struct NotExclusive {
    name: LockKey,
    kind: String,
}

impl From<NotExclusive> for LockError {
    fn from(error: NotExclusive) -> Self {
        Self::NotExclusive { key: error.name.to_string(), problem: error.to_string() }
    }
}

impl NotExclusive {
    pub(crate) fn new(name: LockKey, kind: impl fmt::Display) -> Self {
        Self { name, kind: kind.to_string() }
    }

    /// Returns the full name of the lock.
    #[must_use]
    pub fn name(&self) -> &LockKey {
        &self.name
    }
}
