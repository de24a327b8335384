//! [`Mutex`]: exclusive, re-entrant by call path, renewed by the watchdog.
// S-25.

use crate::acquire::{Acquire, Handle, Run, TryRun, lock_options};
use crate::guard::LockGuard;

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
/// use lock_runtime::LockClient;
/// use std::time::Duration;
///
/// let client = LockClient::in_memory();
/// let guard = client.mutex("order:42").wait(Duration::from_secs(2)).lock().await?;
/// // No other process is past this line for order 42.
/// guard.release().await?;
/// # Ok::<_, lock_runtime::LockError>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a mutex does nothing until it is locked"]
pub struct Mutex(Handle);

lock_options!(Mutex);

impl Mutex {
    pub(crate) fn new(handle: Handle) -> Self {
        Self(handle)
    }

    fn map(self, change: impl Fn(Handle) -> Handle) -> Self {
        Self(change(self.0))
    }

    /// Acquires the lock, and waits as long as the options allow; by default for 30 s.
    ///
    /// Inside [`LockGuard::run`] of the same lock this is re-entry: no round trip, the same token, and a
    /// release that only undoes the re-entry. If another re-entry is inside, it waits for that one first.
    ///
    /// # Errors
    ///
    /// - [`LockError::Timeout`](crate::LockError::Timeout) if the wait ended, [`LockError::Busy`](crate::LockError::Busy) if the options allow no wait or too many
    ///   tasks already wait.
    /// - [`LockError::InvalidKey`](crate::LockError::InvalidKey) if the name was invalid; nothing was sent.
    /// - [`LockError::KeyCollision`](crate::LockError::KeyCollision) if the key holds other data.
    /// - [`LockError::Lost`](crate::LockError::Lost) on re-entry into a hold that is lost.
    /// - [`LockError::Store`](crate::LockError::Store) if the store failed. If the store did grant the lock, that is undone in the
    ///   background.
    /// - [`LockError::Closed`](crate::LockError::Closed) after the client was shut down.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue. A lock that was granted meanwhile is released in
    /// the background, at the latest when its lease ends.
    // S-6.
    #[track_caller]
    pub fn lock(&self) -> Acquire {
        self.0.lock()
    }

    /// Acquires the lock if it is free, with one round trip, or none if this process knows that it is held.
    /// Right after a release of which other processes were notified, they get a head start of a millisecond or
    /// two.
    ///
    /// `Ok(None)` means that another holder has it or a waiter goes first.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock), except that being busy is not an error. A store that cannot answer is an error,
    /// never a busy lock.
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    #[track_caller]
    pub fn try_lock(&self) -> Acquire<Option<LockGuard>> {
        self.0.try_lock()
    }

    /// Acquires the lock, runs `body` under it and releases it: [`lock`](Self::lock), [`LockGuard::run`] and
    /// [`LockGuard::release`] in one call.
    ///
    /// The body starts once the lock is held, and is dropped at the moment that the hold is lost, unless the options say
    /// [`OnLost::Finish`](crate::options::OnLost::Finish). The lock is released before its value is returned, unless that
    /// takes longer than [`release_timeout`](crate::LockOptions::release_timeout): then it is released in the background.
    ///
    /// # Errors
    ///
    /// - As [`lock`](Self::lock); the body was then not started.
    /// - [`LockError::Lost`](crate::LockError::Lost) if the hold was lost while the body ran: at once or, with
    ///   [`OnLost::Finish`](crate::options::OnLost::Finish), in place of the value when the body has ended.
    /// - [`LockError::Lost`](crate::LockError::Lost) if the body ended in time, but the release found the hold gone and the options say
    ///   [`OnReleaseLost::Error`](crate::options::OnReleaseLost::Error). Else the value is returned, and the log has a
    ///   warning, as for every other failure of the release.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body and then releases the lock in the background, or gives up the place
    /// in the queue if the body was not started.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use lock_runtime::LockClient;
    /// use std::time::Duration;
    ///
    /// let client = LockClient::in_memory();
    /// let order = client.mutex("order:42").wait(Duration::from_secs(2));
    /// let receipt = order.run(async { "paid" }).await?;
    /// assert_eq!(receipt, "paid");
    /// # Ok::<_, lock_runtime::LockError>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    // S-13.
    #[track_caller]
    pub fn run<F: Future>(&self, body: F) -> Run<'static, F> {
        self.0.run(body)
    }

    /// As [`run`](Self::run), for a body that returns a `Result` whose error a [`LockError`](crate::LockError) can become: one `?`
    /// for both.
    ///
    /// # Errors
    ///
    /// Those of the body, and those of [`run`](Self::run) as the body's.
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run).
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use lock_runtime::{LockClient, LockError};
    ///
    /// #[derive(Debug, thiserror::Error)]
    /// enum PayError {
    ///     #[error("the card was refused")]
    ///     Refused,
    ///     #[error(transparent)]
    ///     Lock(#[from] LockError),
    /// }
    ///
    /// async fn charge(cents: u64) -> Result<u64, PayError> {
    ///     if cents == 0 { Err(PayError::Refused) } else { Ok(cents) }
    /// }
    ///
    /// let client = LockClient::in_memory();
    /// assert_eq!(client.mutex("order:42").try_run(charge(995)).await?, 995);
    /// assert!(matches!(client.mutex("order:42").try_run(charge(0)).await, Err(PayError::Refused)));
    /// # Ok::<_, PayError>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn try_run<F: Future>(&self, body: F) -> TryRun<F> {
        self.0.try_run(body)
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.0
    }
}
