//! [`RwLock`].

use super::LockGuard;
use super::locks::blocking_settings;
use crate::error::LockError;
use crate::guard::LockGuard as AsyncGuard;
use crate::own_runtime::Driver;
use crate::rw_lock::RwLock as AsyncLock;

/// A distributed read/write lock, for code without async: see [`RwLock`](crate::RwLock).
///
/// # Examples
///
/// ```
/// use lock_runtime::blocking::LockClient;
///
/// let prices = LockClient::in_memory()?.rw_lock("prices");
/// let (one, two) = (prices.read()?, prices.read()?);
/// assert!(prices.try_write()?.is_none());
/// drop((one, two));
/// let writer = prices.write()?;
/// let reader = writer.run(|_hold| prices.read())??; // downgrade
/// writer.release()?;
/// reader.release()?;
/// # Ok::<_, lock_runtime::LockError>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct RwLock {
    // Before the driver: fields are dropped in this order.
    lock: AsyncLock,
    driver: Driver,
}

blocking_settings!(RwLock);

impl RwLock {
    pub(super) fn new(lock: AsyncLock, driver: Driver) -> Self {
        Self { lock, driver }
    }

    fn map(self, change: impl FnOnce(AsyncLock) -> AsyncLock) -> Self {
        Self { lock: change(self.lock), driver: self.driver }
    }

    pub(super) fn parts(&self) -> (&AsyncLock, &Driver) {
        (&self.lock, &self.driver)
    }

    fn guard(&self, guard: AsyncGuard) -> LockGuard {
        LockGuard::new(guard, &self.driver)
    }

    /// Acquires the read side once no writer holds the lock or goes first.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`](super::Mutex::lock).
    #[track_caller]
    pub fn read(&self) -> Result<LockGuard, LockError> {
        Ok(self.guard(self.driver.wait(self.lock.read())?))
    }

    /// Acquires the read side if no writer holds the lock or waits for it. Returns `Ok(None)` if not.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), except that being busy is not an error.
    #[track_caller]
    pub fn try_read(&self) -> Result<Option<LockGuard>, LockError> {
        let guard = self.driver.wait(self.lock.try_read())?;
        Ok(guard.map(|guard| self.guard(guard)))
    }

    /// Acquires the write side once no task reads or writes; new readers wait for it meanwhile.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`](super::Mutex::lock), and [`LockError::WouldDeadlock`] inside [`run`](LockGuard::run) of the read
    /// side.
    #[track_caller]
    pub fn write(&self) -> Result<LockGuard, LockError> {
        Ok(self.guard(self.driver.wait(self.lock.write())?))
    }

    /// Acquires the write side if no task reads or writes, and no reader that waited through a write goes first. Returns
    /// `Ok(None)` if not.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write), except that being busy is not an error.
    #[track_caller]
    pub fn try_write(&self) -> Result<Option<LockGuard>, LockError> {
        let guard = self.driver.wait(self.lock.try_write())?;
        Ok(guard.map(|guard| self.guard(guard)))
    }

    /// Acquires the read side, runs `body` under it and releases it.
    ///
    /// # Errors
    ///
    /// As [`Mutex::run`](super::Mutex::run).
    #[track_caller]
    pub fn run_read<T>(&self, body: impl FnOnce(&LockGuard) -> T) -> Result<T, LockError> {
        let on_release_lost = self.lock.sides().0.on_release_lost();
        self.read()?.run_and_release(true, on_release_lost, body)
    }

    /// Acquires the write side, runs `body` under it and releases it.
    ///
    /// # Errors
    ///
    /// As [`Mutex::run`](super::Mutex::run).
    #[track_caller]
    pub fn run_write<T>(&self, body: impl FnOnce(&LockGuard) -> T) -> Result<T, LockError> {
        let on_release_lost = self.lock.sides().1.on_release_lost();
        self.write()?.run_and_release(true, on_release_lost, body)
    }
}
