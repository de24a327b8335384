//! [`Semaphore`]: a limited number of leased permits.
// S-30.

use std::num::NonZeroU32;

use crate::acquire::{Handle, RunLocked, lock_settings};
use crate::error::LockError;
use crate::guard::LockGuard;

/// Most permits of one acquire: each is an entry of its own in the store, as Redisson has it.
const MOST_AT_ONCE: u32 = 1024;

/// A distributed semaphore: at most `limit` permits are in use at a time across every process that shares the
/// store.
///
/// Permits are leased and renewed like any lock, so those of a process that died become free. The limit is the
/// caller's: an acquire succeeds if, with it, no more than *its* limit are in use. After a limit was lowered,
/// no permit is granted until fewer are in use.
///
/// A semaphore is not re-entrant: each acquire needs permits of its own, so a task that holds the last permit
/// and waits for another waits for itself.
///
/// Waiting tasks of one process that give the same limit are served strictly first in, first out: one that needs
/// three permits blocks those behind it that need one, because it might never be served otherwise. Tasks that give
/// another limit have a queue of their own, so after a change of the limit none waits behind an old one. Among processes there is no
/// order, so an acquire of several permits waits until that many are free at once. The `try_` forms do not
/// queue and acquire free permits, even ahead of tasks that wait for more.
///
/// Redisson's `getPermitExpirableSemaphore` of the same name is the same semaphore. If Redisson created it, the
/// limit must be its number of permits; another limit is a [`KeyCollision`](LockError::KeyCollision), because
/// the number of permits of such a semaphore looks like the count of its latch. The count of a
/// [`CountDownLatch`](crate::CountDownLatch) always is a collision. One case cannot be detected: a Java
/// client's latch whose count equals the limit looks like that client's semaphore with no permit in use. If a
/// client of this crate created the semaphore, Redisson's clients see the limit of its last acquire.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use lock_runtime::LockClient;
/// use std::num::NonZeroU32;
///
/// let client = LockClient::in_memory();
/// let two = client.semaphore("reports", NonZeroU32::new(2).unwrap());
/// let (one, other) = (two.acquire().await?, two.acquire().await?);
/// assert!(two.try_acquire().await?.is_none());
/// one.release().await?;
/// assert!(two.try_acquire().await?.is_some());
/// # drop(other);
/// # Ok::<_, lock_runtime::LockError>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a semaphore does nothing until it is acquired"]
pub struct Semaphore {
    handle: Handle,
    limit: NonZeroU32,
}

lock_settings!(Semaphore);

impl Semaphore {
    pub(crate) fn new(handle: Handle, limit: NonZeroU32) -> Self {
        Self { handle, limit }
    }

    fn map(self, change: impl Fn(Handle) -> Handle) -> Self {
        Self { handle: change(self.handle), ..self }
    }

    /// Returns how many permits there are.
    #[must_use]
    pub fn limit(&self) -> NonZeroU32 {
        self.limit
    }

    /// Acquires one permit once one is free.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue. Permits that were granted meanwhile are released in
    /// the background.
    #[track_caller]
    pub fn acquire(
        &self,
    ) -> impl Future<Output = Result<SemaphorePermit, LockError>> + Send + use<> {
        self.acquire_many(NonZeroU32::MIN)
    }

    /// Acquires `permits` permits once that many are free at once. They end and are released together.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`LockError::InvalidOptions`] if `permits` exceeds the limit or 1024.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    #[track_caller]
    pub fn acquire_many(
        &self,
        permits: NonZeroU32,
    ) -> impl Future<Output = Result<SemaphorePermit, LockError>> + Send + use<> {
        let acquire = self.of(permits).lock();
        async move { Ok(SemaphorePermit { guard: acquire.await?, permits }) }
    }

    /// Acquires one permit if one is free. Returns `Ok(None)` if not.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), except that being busy is not an error.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    #[track_caller]
    pub fn try_acquire(
        &self,
    ) -> impl Future<Output = Result<Option<SemaphorePermit>, LockError>> + Send + use<> {
        self.try_acquire_many(NonZeroU32::MIN)
    }

    /// Acquires `permits` permits if that many are free. Returns `Ok(None)` if not.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many), except that being busy is not an error.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    #[track_caller]
    pub fn try_acquire_many(
        &self,
        permits: NonZeroU32,
    ) -> impl Future<Output = Result<Option<SemaphorePermit>, LockError>> + Send + use<> {
        let acquire = self.of(permits).try_lock();
        async move { Ok(acquire.await?.map(|guard| SemaphorePermit { guard, permits })) }
    }

    /// Acquires one permit, runs `body` under it and releases it: [`acquire`](Self::acquire),
    /// [`LockGuard::run`] and [`LockGuard::release`] in one call.
    ///
    /// # Errors
    ///
    /// As [`Mutex::run`](crate::Mutex::run).
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::run`](crate::Mutex::run).
    #[track_caller]
    pub fn run<F: Future>(&self, body: F) -> RunLocked<F> {
        self.handle.run(body)
    }

    /// Returns the lock that acquires that many permits.
    pub(crate) fn of(&self, permits: NonZeroU32) -> Handle {
        let detail = if permits > self.limit {
            format!(
                "{permits} permits are wanted of a semaphore that has {}; ask for fewer or raise the \
                 limit",
                self.limit
            )
        } else if permits.get() > MOST_AT_ONCE {
            format!(
                "{permits} permits are wanted at once; take at most {MOST_AT_ONCE} with one acquire"
            )
        } else {
            return self.handle.permits(permits.get());
        };
        Handle::invalid(LockError::InvalidOptions(detail))
    }
}

/// One or more permits of a [`Semaphore`], until released, dropped, or lost.
///
/// It wraps a [`LockGuard`] ([`guard`](Self::guard)): it is renewed, it can be lost, and it can run a body
/// while it holds.
#[derive(Debug)]
#[must_use = "the permits are released as soon as this is dropped"]
#[clippy::has_significant_drop]
pub struct SemaphorePermit {
    permits: NonZeroU32,
    guard: LockGuard,
}

impl SemaphorePermit {
    /// Returns how many permits these are.
    #[must_use]
    pub fn permits(&self) -> NonZeroU32 {
        self.permits
    }

    /// Returns the guard: to run a body under it, to wait for its loss, to extend it. Its fencing token grows
    /// with each acquire but orders nothing while several tasks hold permits.
    pub fn guard(&self) -> &LockGuard {
        &self.guard
    }

    /// Releases the permits and waits for the store's answer.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::release`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the releaser does the rest.
    pub async fn release(self) -> Result<(), LockError> {
        self.guard.release().await
    }
}

impl AsRef<LockGuard> for SemaphorePermit {
    fn as_ref(&self) -> &LockGuard {
        &self.guard
    }
}

impl From<SemaphorePermit> for LockGuard {
    /// Returns the guard alone; releasing it releases all permits.
    fn from(permit: SemaphorePermit) -> Self {
        permit.guard
    }
}
