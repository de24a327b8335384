//! [`CountDownLatch`]: a count that processes wait for.
// S-30.

use crate::acquire::{Handle, Reached};
use crate::error::LockError;
use crate::options::{LockOptions, Wait};
use crate::store::LatchRequest;

/// A distributed count-down latch: tasks of any process wait until others have counted it down.
///
/// A latch is open while it has no count, including before one was set: set it before any task waits. Counted
/// down to zero it is removed, and a new count may be set. A latch that is used repeatedly can be closed again
/// before a waiter has checked it; that waiter waits for the next round.
///
/// A latch has no lease: the count stays until it is counted down or [removed](Self::remove), even if processes
/// die. A waiter that misses the notification checks again after five seconds at the latest.
///
/// Redisson's `getCountDownLatch` of the same name is the same latch. A latch set by this crate expires after a
/// hundred years, which distinguishes it from a Java client's semaphore.
///
/// # Examples
///
/// ```no_run
/// # async fn example(client: lock_runtime::LockClient) -> Result<(), lock_runtime::LockError> {
/// use lock_runtime::Wait;
///
/// let imported = client.latch("import:2024-05");
/// imported.try_set_count(2).await?;
/// // In each of two other processes, when it is done:
/// client.latch("import:2024-05").count_down().await?;
/// // Goes on when both are.
/// imported.wait(Wait::Forever).reached().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a latch does nothing until it is used"]
pub struct CountDownLatch {
    handle: Handle,
}

impl CountDownLatch {
    pub(crate) fn new(handle: Handle) -> Self {
        Self { handle }
    }

    /// Returns the same latch with `options` over its own. Only [`LockOptions::wait`] and
    /// [`LockOptions::max_waiters`] affect a latch.
    pub fn with(self, options: LockOptions) -> Self {
        Self { handle: self.handle.with_over(options) }
    }

    /// Returns the same latch with another `wait`: see [`LockOptions::wait`].
    pub fn wait(self, wait: impl Into<Wait>) -> Self {
        self.with(LockOptions::new().wait(wait))
    }

    /// Sets the count if there is none. Returns false if there is one, which then stays unchanged.
    ///
    /// # Errors
    ///
    /// - [`LockError::InvalidOptions`] if `count` is zero; [`remove`](Self::remove) opens a latch.
    /// - [`LockError::InvalidKey`] if the name is not valid.
    /// - [`LockError::KeyCollision`] if the name holds data other than a latch.
    /// - [`LockError::Store`] if the store could not be reached. With
    ///   [`StoreErrorKind::OutcomeUnknown`](crate::error::StoreErrorKind::OutcomeUnknown) the count may have
    ///   been set; check with [`count`](Self::count).
    /// - [`LockError::Closed`] after the client was shut down.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it resolves, the count may or may not have been set.
    pub async fn try_set_count(&self, count: u32) -> Result<bool, LockError> {
        if count == 0 {
            return Err(LockError::InvalidOptions(
                "the count of a latch is 0; give at least 1, or remove the latch to open it".into(),
            ));
        }
        Ok(self.handle.work_latch(LatchRequest::SetCount(count)).await? == 1)
    }

    /// Counts down by one; the last one opens the latch. Returns the remaining count, which is also zero for a
    /// latch that was already open.
    ///
    /// # Errors
    ///
    /// As [`try_set_count`](Self::try_set_count), except for the count of zero. With
    /// [`StoreErrorKind::OutcomeUnknown`](crate::error::StoreErrorKind::OutcomeUnknown) this call may have
    /// counted or not; it is not repeated, because that would count twice.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it resolves, it may or may not have counted.
    pub async fn count_down(&self) -> Result<u64, LockError> {
        self.handle.work_latch(LatchRequest::CountDown).await
    }

    /// Returns the remaining count; zero if the latch is open.
    ///
    /// # Errors
    ///
    /// As [`try_set_count`](Self::try_set_count), except for the count of zero.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn count(&self) -> Result<u64, LockError> {
        self.handle.work_latch(LatchRequest::Count).await
    }

    /// Waits until the latch is open, for [`DEFAULT_WAIT`](crate::options::DEFAULT_WAIT) (30 s) unless [`wait`](Self::wait)
    /// says otherwise. A wait that ends before that returns [`LockError::LatchClosed`], with the count that the store last
    /// reported; the latch stays as it is, and may be waited for again.
    ///
    /// # Errors
    ///
    /// - [`LockError::LatchClosed`] if it was still closed when the wait ended or, with
    ///   [`Wait::None`](crate::Wait::None), at once; [`LockError::Busy`] if too many tasks already wait.
    /// - [`LockError::Store`] if the store could not be reached for longer than
    ///   [`store_patience`](crate::LockClientBuilder::store_patience).
    /// - [`LockError::InvalidKey`], [`LockError::KeyCollision`], [`LockError::Closed`] as for
    ///   [`try_set_count`](Self::try_set_count).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a waiter leaves nothing behind.
    #[track_caller]
    pub fn reached(&self) -> Reached {
        self.handle.until_open()
    }

    /// Removes the latch, which ends its waiters' wait. Returns false if it was already open.
    ///
    /// # Errors
    ///
    /// As [`try_set_count`](Self::try_set_count), except for the count of zero.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before it resolves, the latch may or may not have been removed.
    pub async fn remove(&self) -> Result<bool, LockError> {
        Ok(self.handle.work_latch(LatchRequest::Remove).await? == 1)
    }
}
