//! [`Mutex`]: exclusive, re-entrant by call path, kept alive by the watchdog.
// S-25.

use crate::acquire::{Acquire, Handle};
use crate::error::LockError;
use crate::guard::LockGuard;
use crate::options::LockOptions;

/// A distributed mutex: one holder at a time across every process that shares the store.
///
/// Waiting tasks of one process are served first in, first out; among processes there is no order.
/// Redisson's `getLock` and `getFencedLock` of the same name are the same lock, with the same
/// [fencing tokens](crate::FencingToken), which need 64 bits.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use lock_runtime::{LockClient, LockOptions};
/// use std::time::Duration;
///
/// let client = LockClient::in_memory();
/// let patient = LockOptions::builder().wait(Duration::from_secs(2)).build()?;
/// let guard = client.mutex("order:42").with(patient).lock().await?;
/// // No other process is past this line for order 42.
/// guard.release().await?;
/// # Ok::<_, lock_runtime::LockError>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a mutex does nothing until it is locked"]
pub struct Mutex(Handle);

impl Mutex {
    pub(crate) fn new(handle: Handle) -> Self {
        Self(handle)
    }

    /// The same mutex with other options.
    pub fn with(self, options: LockOptions) -> Self {
        Self(self.0.with(options))
    }

    /// Takes the lock, waiting as long as the options allow; by default, as long as it takes.
    ///
    /// Inside [`LockGuard::run`] of the same lock this is re-entry: no round trip, the same token,
    /// and a release that only steps back. Beside another re-entry it waits for that one first.
    ///
    /// # Errors
    ///
    /// - [`LockError::Timeout`] if the wait ran out, [`LockError::Busy`] if there was to be none or
    ///   too many wait already.
    /// - [`LockError::InvalidKey`] if the name was invalid; nothing was sent.
    /// - [`LockError::KeyCollision`] if the key holds something else.
    /// - [`LockError::Lost`] on re-entry into a hold that is lost.
    /// - [`LockError::Store`] if the store failed. Should it have granted the lock, that is undone in
    ///   the background.
    /// - [`LockError::Closed`] after the client was shut down.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in line. A lock that was granted meanwhile is given
    /// back in the background, at the latest when its lease ends.
    // S-6.
    #[track_caller]
    pub fn lock(&self) -> Acquire {
        self.0.lock()
    }

    /// Takes the lock if it is free, with one round trip, or none if this process can tell. Right after
    /// a release that other processes heard of, they get a head start of a millisecond or two.
    ///
    /// `Ok(None)` means that somebody else holds it or is ahead in line.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock), except that being busy is not an error. A store that cannot answer
    /// is never taken for a busy lock.
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
