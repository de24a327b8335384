//! [`CountDownLatch`].

use std::sync::Arc;

use crate::error::LockError;
use crate::latch::CountDownLatch as AsyncLatch;
use crate::options::LockOptions;
use crate::own_runtime::Driver;

/// A distributed count-down latch, for code without async: see [`CountDownLatch`](crate::CountDownLatch).
///
/// # Examples
///
/// ```
/// use lock_runtime::blocking::LockClient;
/// use std::thread;
///
/// let imported = LockClient::in_memory()?.latch("import:2024-05");
/// imported.try_set_count(1)?;
/// let worker = imported.clone();
/// let counted = thread::spawn(move || worker.count_down());
/// imported.wait()?; // goes on when the worker is done
/// assert_eq!(counted.join().unwrap()?, 0);
/// # Ok::<_, lock_runtime::LockError>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a latch does nothing until it is used"]
pub struct CountDownLatch {
    // Before the driver: fields are dropped in this order.
    latch: AsyncLatch,
    driver: Driver,
}

impl CountDownLatch {
    pub(super) fn new(latch: AsyncLatch, driver: Driver) -> Self {
        Self { latch, driver }
    }

    /// Returns the same latch with other options. Only [`LockOptions::wait`] and [`LockOptions::max_waiters`] affect a
    /// latch.
    pub fn with(self, options: impl Into<Arc<LockOptions>>) -> Self {
        Self { latch: self.latch.with(options), driver: self.driver }
    }

    /// Sets the count if there is none. Returns false if there is one, which then stays unchanged.
    ///
    /// # Errors
    ///
    /// As [`CountDownLatch::try_set_count`](crate::CountDownLatch::try_set_count), and [`LockError::InAsyncTask`] in an
    /// async task.
    pub fn try_set_count(&self, count: u32) -> Result<bool, LockError> {
        self.driver.wait(self.latch.try_set_count(count))
    }

    /// Counts down by one; the last one opens the latch. Returns the remaining count, which is also zero for a latch that
    /// was already open.
    ///
    /// # Errors
    ///
    /// As [`CountDownLatch::count_down`](crate::CountDownLatch::count_down), and [`LockError::InAsyncTask`] in an async
    /// task.
    pub fn count_down(&self) -> Result<u64, LockError> {
        self.driver.wait(self.latch.count_down())
    }

    /// Returns the remaining count; zero if the latch is open.
    ///
    /// # Errors
    ///
    /// As [`CountDownLatch::count`](crate::CountDownLatch::count), and [`LockError::InAsyncTask`] in an async task.
    pub fn count(&self) -> Result<u64, LockError> {
        self.driver.wait(self.latch.count())
    }

    /// Waits until the latch is open.
    ///
    /// # Errors
    ///
    /// As [`CountDownLatch::wait`](crate::CountDownLatch::wait), and [`LockError::InAsyncTask`] in an async task.
    #[track_caller]
    pub fn wait(&self) -> Result<(), LockError> {
        self.driver.wait(self.latch.wait())
    }

    /// Removes the latch, which ends its waiters' wait. Returns false if it was already open.
    ///
    /// # Errors
    ///
    /// As [`CountDownLatch::remove`](crate::CountDownLatch::remove), and [`LockError::InAsyncTask`] in an async task.
    pub fn remove(&self) -> Result<bool, LockError> {
        self.driver.wait(self.latch.remove())
    }
}
