//! [`Semaphore`]: a limited number of leased permits.
// S-30.

use std::num::NonZeroU32;

use crate::acquire::Handle;
use crate::error::LockError;
use crate::guard::LockGuard;
use crate::options::LockOptions;

/// Most permits of one acquire: each is an entry of its own in the store, for Redisson's sake.
const MOST_AT_ONCE: u32 = 1024;

/// A distributed semaphore: so many holders at a time across every process that shares the store.
///
/// Permits are leased and renewed like any lock, so those of a process that died come back. The
/// limit is the caller's: an acquire succeeds if, with it, no more than *its* limit are in use. After
/// a limit was lowered, nothing is granted until fewer are in use.
///
/// A semaphore is not re-entrant: each acquire takes permits of its own, so a task that waits for
/// more while it has the last waits for itself.
///
/// Waiting tasks of one process are served strictly first in, first out: one that wants three
/// permits holds up those behind it that want one, or it might never be served. Among processes there
/// is no order, so one that wants many waits until so many are free at once. The `try_` forms line up
/// nowhere and take what is free, also past those who wait for more.
///
/// Redisson's `getPermitExpirableSemaphore` of the same name is the same semaphore. Where Redisson
/// made it, the limit has to be its number of permits; anything else is a
/// [`KeyCollision`](LockError::KeyCollision), because the number of permits of such a semaphore looks
/// like the count of its latch. The count of a [`CountDownLatch`](crate::CountDownLatch) is one in any
/// case; a latch that a Java client made, with a count that is just the limit, is the one thing that
/// nothing tells from a semaphore of that client's of which no permit is in use. Where one of us made
/// the semaphore, Redisson's clients see the limit of whoever acquired last.
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

impl Semaphore {
    pub(crate) fn new(handle: Handle, limit: NonZeroU32) -> Self {
        Self { handle, limit }
    }

    /// The same semaphore with other options.
    pub fn with(self, options: LockOptions) -> Self {
        Self { handle: self.handle.with(options), ..self }
    }

    /// How many permits there are.
    #[must_use]
    pub fn limit(&self) -> NonZeroU32 {
        self.limit
    }

    /// Takes one permit once one is free.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in line. Permits that were granted meanwhile are given
    /// back in the background.
    #[track_caller]
    pub fn acquire(
        &self,
    ) -> impl Future<Output = Result<SemaphorePermit, LockError>> + Send + use<> {
        self.acquire_many(NonZeroU32::MIN)
    }

    /// Takes `permits` permits once so many are free at once. They end and are given back together.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`LockError::InvalidOptions`] if there are not so many or
    /// more than 1024 are wanted.
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

    /// Takes one permit if one is free. `Ok(None)` if not.
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

    /// Takes `permits` permits if so many are free. `Ok(None)` if not.
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

    /// The lock that takes so many permits.
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
/// A [`LockGuard`] underneath ([`guard`](Self::guard)): it is renewed, it can be lost, and it can run
/// a body for as long as it holds.
#[derive(Debug)]
#[must_use = "the permits are given back as soon as this is dropped"]
#[clippy::has_significant_drop]
pub struct SemaphorePermit {
    permits: NonZeroU32,
    guard: LockGuard,
}

impl SemaphorePermit {
    /// How many permits these are.
    #[must_use]
    pub fn permits(&self) -> NonZeroU32 {
        self.permits
    }

    /// The hold: to run a body under it, to hear of its loss, to extend it. Its fencing token grows
    /// with each acquire but orders nothing where several hold at once.
    pub fn guard(&self) -> &LockGuard {
        &self.guard
    }

    /// Gives the permits back and waits for the store's word.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::release`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the rest to the releaser.
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
    /// The hold alone; releasing it gives all permits back.
    fn from(permit: SemaphorePermit) -> Self {
        permit.guard
    }
}
