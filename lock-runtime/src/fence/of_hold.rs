//! What a resource needs of a hold to refuse the writes of earlier ones: [`Fenced`], [`Fences`].
// S-37.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::FencingToken;
use crate::error::LockError;
use crate::guard::{LockGuard, LockWatch};
use crate::key::LockKey;
use crate::lease::Hold;
use crate::store::HoldKind;

/// A hold whose token orders it among all holds of its names: [`LockGuard`], [`LockWatch`] and, in `lock-tower`, `HeldLock`.
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

impl Fenced for LockGuard {
    fn fences(&self) -> Result<Fences, NotExclusive> {
        Fences::of(self.hold(), self.token())
    }
}

impl Fenced for LockWatch {
    fn fences(&self) -> Result<Fences, NotExclusive> {
        Fences::of(self.hold(), self.token())
    }
}

/// The names and the token of a hold that excludes all others: returned by [`Fenced::fences`].
#[derive(Clone)]
pub struct Fences {
    hold: Arc<Hold>,
    token: FencingToken,
}

impl Fences {
    fn of(hold: &Arc<Hold>, token: FencingToken) -> Result<Self, NotExclusive> {
        let shares = |kind| matches!(kind, HoldKind::Read | HoldKind::Semaphore | HoldKind::Latch);
        match hold.target.locks().find(|lock| shares(lock.kind())) {
            Some(lock) => Err(NotExclusive { name: lock.key().clone(), kind: lock.kind() }),
            None => Ok(Self { hold: Arc::clone(hold), token }),
        }
    }

    /// Returns the full names of all its locks, namespaces included. They are sorted and differ, so whoever stores tokens in
    /// this order waits for nobody who waits for them.
    pub fn names(&self) -> impl Iterator<Item = &LockKey> {
        let names: BTreeSet<_> = self.hold.target.locks().map(|lock| lock.key()).collect();
        names.into_iter()
    }

    /// Returns the token, which is the same for all names.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.token
    }
}

impl fmt::Debug for Fences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.names().collect();
        f.debug_struct("Fences").field("names", &names).field("token", &self.token).finish()
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
    kind: HoldKind,
}

impl From<NotExclusive> for LockError {
    fn from(error: NotExclusive) -> Self {
        Self::NotExclusive { key: error.name.to_string(), problem: error.to_string() }
    }
}

impl NotExclusive {
    /// Returns the full name of the lock.
    #[must_use]
    pub fn name(&self) -> &LockKey {
        &self.name
    }
}
