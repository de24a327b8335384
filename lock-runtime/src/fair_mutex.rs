//! [`FairMutex`]: a mutex with one line for all processes.
// S-26.

use crate::acquire::{Acquire, Handle};
use crate::error::LockError;
use crate::guard::LockGuard;
use crate::options::LockOptions;

/// A distributed mutex that waiters of all processes get in the order in which they came.
///
/// The line is kept in the store, so each waiting task costs a place there, a subscription, and a
/// sign of life every third of
/// [`waiter_lease`](crate::LockClientBuilder::waiter_lease); nothing is handed over inside a
/// process. Use it where order matters and [`Mutex`](crate::Mutex) where speed does. Waiters that
/// died hold up the line for one waiter lease in all.
///
/// Redisson's `getFairLock` of the same name is the same lock. Its clients move the time-outs of
/// everybody in line by their own waiting time (five minutes by default) whenever they take the lock
/// or give up. Ours allow for it and keep their turn, unless a Java client ahead of them has waited for
/// minutes already; then they may have to line up anew. A Java client whose clock is ahead of the
/// server's by more than the waiter lease sweeps ours at once.
///
/// A name that is held as something else of ours, by a [`Mutex`](crate::Mutex) too, is a
/// [`KeyCollision`](LockError::KeyCollision). Redisson's plain lock looks like its fair one, so the
/// hold of a Java client is waited for, whichever it is.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use lock_runtime::LockClient;
///
/// let client = LockClient::in_memory();
/// let guard = client.fair_mutex("ticket:desk").lock().await?;
/// guard.release().await?;
/// # Ok::<_, lock_runtime::LockError>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a mutex does nothing until it is locked"]
pub struct FairMutex(Handle);

impl FairMutex {
    pub(crate) fn new(handle: Handle) -> Self {
        Self(handle)
    }

    /// The same mutex with other options.
    pub fn with(self, options: LockOptions) -> Self {
        Self(self.0.with(options))
    }

    /// Takes the lock once everybody ahead in line has had it, waiting as long as the options allow.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in line at once. A lock that was granted meanwhile is
    /// given back in the background.
    #[track_caller]
    pub fn lock(&self) -> Acquire {
        self.0.lock()
    }

    /// Takes the lock if it is free and nobody waits for it. `Ok(None)` if not.
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

    pub(crate) fn handle(&self) -> &Handle {
        &self.0
    }
}
