//! [`Semaphore`] and its permits.

use std::num::NonZeroU32;

use super::LockGuard;
use super::locks::blocking_settings;
use crate::error::LockError;
use crate::own_runtime::Driver;
use crate::semaphore::{Semaphore as AsyncSemaphore, SemaphorePermit as AsyncPermit};

/// A distributed semaphore, for code without async: see [`Semaphore`](crate::Semaphore).
///
/// # Examples
///
/// ```
/// use lock_runtime::blocking::LockClient;
/// use std::num::NonZeroU32;
///
/// let two = LockClient::in_memory()?.semaphore("reports", NonZeroU32::new(2).unwrap());
/// let (one, other) = (two.acquire()?, two.acquire()?);
/// assert!(two.try_acquire()?.is_none());
/// one.release()?;
/// assert!(two.try_acquire()?.is_some());
/// # drop(other);
/// # Ok::<_, lock_runtime::LockError>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a semaphore does nothing until it is acquired"]
pub struct Semaphore {
    // Before the driver: fields are dropped in this order.
    semaphore: AsyncSemaphore,
    driver: Driver,
}

blocking_settings!(Semaphore);

impl Semaphore {
    pub(super) fn new(semaphore: AsyncSemaphore, driver: Driver) -> Self {
        Self { semaphore, driver }
    }

    fn map(self, change: impl FnOnce(AsyncSemaphore) -> AsyncSemaphore) -> Self {
        Self { semaphore: change(self.semaphore), driver: self.driver }
    }

    pub(super) fn parts(&self) -> (&AsyncSemaphore, &Driver) {
        (&self.semaphore, &self.driver)
    }

    fn permit(&self, permit: AsyncPermit) -> SemaphorePermit {
        let permits = permit.permits();
        SemaphorePermit { permits, guard: LockGuard::new(permit.into(), &self.driver) }
    }

    /// Returns how many permits there are.
    #[must_use]
    pub fn limit(&self) -> NonZeroU32 {
        self.semaphore.limit()
    }

    /// Acquires one permit once one is free.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`](super::Mutex::lock).
    #[track_caller]
    pub fn acquire(&self) -> Result<SemaphorePermit, LockError> {
        self.acquire_many(NonZeroU32::MIN)
    }

    /// Acquires `permits` permits once that many are free at once. They end and are released together.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`LockError::InvalidOptions`] if `permits` exceeds the limit or 1024.
    #[track_caller]
    pub fn acquire_many(&self, permits: NonZeroU32) -> Result<SemaphorePermit, LockError> {
        Ok(self.permit(self.driver.wait(self.semaphore.acquire_many(permits))?))
    }

    /// Acquires one permit if one is free. Returns `Ok(None)` if not.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), except that being busy is not an error.
    #[track_caller]
    pub fn try_acquire(&self) -> Result<Option<SemaphorePermit>, LockError> {
        self.try_acquire_many(NonZeroU32::MIN)
    }

    /// Acquires `permits` permits if that many are free. Returns `Ok(None)` if not.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many), except that being busy is not an error.
    #[track_caller]
    pub fn try_acquire_many(
        &self,
        permits: NonZeroU32,
    ) -> Result<Option<SemaphorePermit>, LockError> {
        let permit = self.driver.wait(self.semaphore.try_acquire_many(permits))?;
        Ok(permit.map(|permit| self.permit(permit)))
    }

    /// Acquires one permit, runs `body` under it and releases it.
    ///
    /// # Errors
    ///
    /// As [`Mutex::run`](super::Mutex::run).
    #[track_caller]
    pub fn run<T>(&self, body: impl FnOnce(&LockGuard) -> T) -> Result<T, LockError> {
        let on_release_lost = self.semaphore.of(NonZeroU32::MIN).on_release_lost();
        self.acquire()?.guard.run_and_release(true, on_release_lost, body)
    }
}

/// One or more permits of a [`Semaphore`], until released, dropped, or lost.
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

    /// Returns the guard: to run a body under it, to check it, to extend it. Its fencing token grows with each acquire but
    /// orders nothing while several threads hold permits.
    pub fn guard(&self) -> &LockGuard {
        &self.guard
    }

    /// Releases the permits and waits for the store's answer.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::release`].
    pub fn release(self) -> Result<(), LockError> {
        self.guard.release()
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
