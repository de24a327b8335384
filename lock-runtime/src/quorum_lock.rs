//! [`QuorumLock`]: one lock on a majority of independent servers.
// S-29.

use crate::acquire::{Acquire, Handle, RunLocked, lock_settings};
use crate::error::LockError;
use crate::guard::LockGuard;

/// A mutex that a majority of independent servers must grant: the Redlock algorithm.
///
/// Made by [`Quorum::lock`](crate::quorum::Quorum::lock); see [`Quorum`](crate::quorum::Quorum) for what it
/// protects against and what not.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), lock_runtime::LockError> {
/// use lock_runtime::quorum::Quorum;
/// use std::time::Duration;
///
/// let quorum = Quorum::builder()
///     .restart_guard(Duration::from_secs(30))
///     .connect(["redis://one", "redis://two", "redis://three"])
///     .await?;
/// let guard = quorum.lock("leader").lock().await?;
/// guard.run(async { /* the work */ }).await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct QuorumLock(Handle);

lock_settings!(QuorumLock);

impl QuorumLock {
    pub(crate) fn new(handle: Handle) -> Self {
        Self(handle)
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn handle(&self) -> &Handle {
        &self.0
    }

    fn map(self, change: impl Fn(Handle) -> Handle) -> Self {
        Self(change(self.0))
    }

    /// Acquires the lock once a majority grants it, and waits as long as the options allow.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock). [`LockError::Store`] if fewer than a majority of the
    /// servers answer for as long as
    /// [`store_patience`](crate::LockClientBuilder::store_patience).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue. Grants that servers made meanwhile or make late are
    /// released in the background.
    #[track_caller]
    pub fn lock(&self) -> Acquire {
        self.0.lock()
    }

    /// Acquires the lock if a majority grants it at once. Returns `Ok(None)` if another holder has it, and also
    /// if several clients asked at the same time and none got a majority.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock), except that being busy is not an error.
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    #[track_caller]
    pub fn try_lock(
        &self,
    ) -> impl Future<Output = Result<Option<LockGuard>, LockError>> + Send + use<> {
        self.0.try_lock()
    }

    /// Acquires the lock, runs `body` under it and releases it: [`lock`](Self::lock), [`LockGuard::run`] and
    /// [`LockGuard::release`] in one call.
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
        self.0.run(body)
    }
}
