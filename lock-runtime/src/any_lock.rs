//! [`AnyLock`]: a lock whose kind is a value, for declared locks.

use std::panic::Location;
use std::sync::Arc;

use crate::acquire::{Acquire, Handle, Run, TryRun, lock_options};
use crate::error::LockError;
use crate::guard::LockGuard;
use crate::key::LockKey;
use crate::observe::Label;
use crate::options::LockOptions;
use crate::site::CallSite;

/// A lock of a kind that is known at run time, as attributes, layers and policies declare it.
///
/// Made by [`LockClient::any_lock`](crate::LockClient::any_lock). It is the same lock as that of the kind's own
/// type.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use lock_runtime::{LockKind, LockClient};
///
/// let client = LockClient::in_memory();
/// let guard = client.any_lock(LockKind::Write, ["prices"]).lock().await?;
/// assert!(client.rw_lock("prices").try_read().await?.is_none());
/// guard.release().await?;
/// # Ok::<_, lock_runtime::LockError>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct AnyLock(Handle);

lock_options!(AnyLock);

impl AnyLock {
    pub(crate) fn new(handle: Handle) -> Self {
        Self(handle)
    }

    /// A lock whose every acquire fails with `error`.
    pub(crate) fn invalid(error: LockError) -> Self {
        Self(Handle::invalid(error))
    }

    fn map(self, change: impl Fn(Handle) -> Handle) -> Self {
        Self(change(self.0))
    }

    /// Returns the same lock, for which the log reports `site` and not the place that calls
    /// [`lock`](Self::lock): for code that acquires locks on behalf of other code.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::{AnyLock, LockKind, LockClient};
    /// use std::panic::Location;
    ///
    /// #[track_caller]
    /// fn cart(client: &LockClient, id: u64) -> AnyLock {
    ///     let key = format!("cart:{id}");
    ///     client.any_lock(LockKind::Mutex, [key]).asked_at(Location::caller())
    /// }
    /// # drop(cart(&LockClient::in_memory(), 7));
    /// ```
    pub fn asked_at(self, place: &'static Location<'static>) -> Self {
        Self(self.0.at(CallSite::Call(place)))
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn handle(&self) -> &Handle {
        &self.0
    }

    /// The same with these options in place of its own.
    pub(crate) fn replace(self, options: Arc<LockOptions>) -> Self {
        Self(self.0.with(options))
    }

    pub(crate) fn labelled(self, label: Label) -> Self {
        Self(self.0.labelled(label))
    }

    /// Returns the lock's full name, if it is valid.
    pub(crate) fn name(&self) -> Option<&LockKey> {
        self.0.spec().ok().map(|spec| spec.target.key())
    }

    /// Acquires the lock, and waits as long as the options allow; by default for 30 s.
    ///
    /// # Errors
    ///
    /// As `lock` of its kind.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue. A hold that was granted meanwhile is released in
    /// the background.
    #[track_caller]
    pub fn lock(&self) -> Acquire {
        self.0.lock()
    }

    /// Acquires the lock if it is free, for a call that always runs: its policy is not enforced, and the
    /// acquire only finds out what would have blocked the call.
    ///
    /// It never waits for the lock, and at most 50 ms for the store. After a slower answer, this client stops
    /// asking, and this fails at once, until the store has answered a probe in the background. A failure is
    /// counted as `not_enforced` or, if it is the store's, as `unanswered`.
    ///
    /// The options `wait` and `replicas` are ignored, and [`OnLost::Finish`](crate::options::OnLost::Finish)
    /// applies. The guard's [`release`](LockGuard::release) does not wait longer for the store either: it then
    /// leaves the rest to the background and succeeds.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock); [`LockError::Busy`] if another holder has it.
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use lock_runtime::{LockKind, LockClient};
    ///
    /// let client = LockClient::in_memory();
    /// let lock = client.any_lock(LockKind::Mutex, ["cart:7"]);
    /// let first = lock.shadow_lock().await?;
    /// assert!(lock.shadow_lock().await.unwrap_err().is_busy());
    /// first.release().await?;
    /// # Ok::<_, lock_runtime::LockError>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn shadow_lock(&self) -> Acquire {
        self.0.shadow_lock()
    }

    /// Acquires the lock if it is free. Returns `Ok(None)` if not.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock), except that being busy is not an error.
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
    /// # Errors
    ///
    /// As [`Mutex::run`](crate::Mutex::run).
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::run`](crate::Mutex::run).
    #[track_caller]
    pub fn run<F: Future>(&self, body: F) -> Run<'static, F> {
        self.0.run(body)
    }

    /// As [`run`](Self::run), for a body that returns a `Result` whose error a [`LockError`] can become: one `?`
    /// for both.
    ///
    /// # Errors
    ///
    /// Those of the body, and those of [`run`](Self::run) as the body's.
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run).
    #[track_caller]
    pub fn try_run<F: Future>(&self, body: F) -> TryRun<F> {
        self.0.try_run(body)
    }
}

impl AnyLock {
    /// As [`lock`](Self::lock) or, if it is not enforced, [`shadow_lock`](Self::shadow_lock). It costs less, because
    /// the lock is not used again.
    #[track_caller]
    pub(crate) fn acquire_once(self, enforced: bool) -> Acquire {
        self.0.into_acquire(enforced)
    }
}
