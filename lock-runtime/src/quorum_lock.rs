//! [`QuorumLock`]: one lock on a majority of independent servers.
// S-29.

use crate::acquire::{Acquire, Handle};
use crate::error::LockError;
use crate::guard::LockGuard;
use crate::options::LockOptions;

/// A mutex that a majority of independent servers has to grant: the Redlock algorithm.
///
/// Made by [`Quorum::lock`](crate::quorum::Quorum::lock), which says what it is good for and what not.
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
#[must_use = "a lock does nothing until it is taken"]
pub struct QuorumLock(Handle);

impl QuorumLock {
    pub(crate) fn new(handle: Handle) -> Self {
        Self(handle)
    }

    /// The same lock with other options.
    pub fn with(self, options: LockOptions) -> Self {
        Self(self.0.with(options))
    }

    /// Takes the lock once a majority grants it, waiting as long as the options allow.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock). [`LockError::Store`] if fewer than a majority of the
    /// servers answer for as long as
    /// [`store_patience`](crate::LockClientBuilder::store_patience).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in line. What servers granted meanwhile or grant late is
    /// given back in the background.
    #[track_caller]
    pub fn lock(&self) -> Acquire {
        self.0.lock()
    }

    /// Takes the lock if a majority grants it at once. `Ok(None)` if somebody else has it, and also if
    /// several asked at the same time and none got a majority.
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
}
