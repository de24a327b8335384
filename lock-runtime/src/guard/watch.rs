//! [`LockWatch`]: observes a hold without keeping it.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use super::LockGuard;
use super::run::Alarm;
use crate::error::LockError;
use crate::fence::FencingToken;
use crate::key::LockKey;
use crate::lease::Hold;
use crate::observe::log_lock;
use crate::scope;

/// An observer of a guard's hold that does not keep it: made by [`LockGuard::watch`].
///
/// It reports nothing about the time after the guard was dropped: the lock may then belong to another holder.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use lock_runtime::LockClient;
///
/// let guard = LockClient::in_memory().mutex("order:42").lock().await?;
/// let watch = guard.watch();
/// tokio::spawn(async move { println!("stop: {}", watch.lost().await) });
/// guard.release().await?;
/// # Ok::<_, lock_runtime::LockError>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LockWatch {
    hold: Arc<Hold>,
    token: FencingToken,
}

impl LockWatch {
    pub(super) fn new(guard: &LockGuard) -> Self {
        Self { hold: Arc::clone(guard.hold()), token: guard.token() }
    }

    /// As [`LockGuard::key`].
    #[must_use]
    pub fn key(&self) -> &LockKey {
        self.hold.target.key()
    }

    /// As [`LockGuard::token`].
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// As [`LockGuard::remaining`].
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.hold.remaining()
    }

    /// As [`LockGuard::is_lost`].
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.hold.check().is_err()
    }

    /// Checks that the hold was not lost.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] once the hold is lost.
    pub fn check(&self) -> Result<(), LockError> {
        self.hold.ensure_held().map(drop)
    }

    /// As [`LockGuard::lost`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn lost(&self) -> LockError {
        lost(&self.hold).await
    }
}

impl LockGuard {
    /// Returns the innermost hold around the calling code: that of [`run`](Self::run), of an annotated
    /// function, or one that [`scope::inherit`] carried here. `None` outside of every
    /// hold, or once its guards are dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use lock_runtime::{LockClient, LockGuard};
    ///
    /// /// Deep in a program, where no guard is at hand.
    /// async fn write() -> Option<u64> {
    ///     LockGuard::current().map(|hold| hold.token().get())
    /// }
    ///
    /// let client = LockClient::in_memory();
    /// assert!(client.mutex("order:42").run(write()).await?.is_some());
    /// assert!(write().await.is_none());
    /// # Ok::<_, lock_runtime::LockError>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn current() -> Option<LockWatch> {
        let owned = scope::enclosing_hold(|_, _| true)?.owned;
        Some(LockWatch { hold: Arc::clone(&owned.hold), token: owned.token })
    }
}

/// For the crate `lock-tower`: logs an event of the hold, with the fields that every such line has.
#[doc(hidden)]
impl LockWatch {
    pub fn log_warn(&self, error: Option<&(dyn Error + 'static)>, what: &str) {
        log_lock!(warn, self.key(), self.hold.recorder.label(), error, "{what}");
    }

    pub fn log_debug(&self, what: &str) {
        log_lock!(debug, self.key(), self.hold.recorder.label(), "{what}");
    }
}

/// Waits until the hold is lost.
pub(crate) async fn lost(hold: &Arc<Hold>) -> LockError {
    let mut alarm = std::pin::pin!(Alarm::default());
    let cause = poll_fn(|cx| alarm.as_mut().poll_lost(hold, cx)).await;
    hold.lost_error(cause)
}

impl fmt::Debug for LockWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockWatch")
            .field("key", self.key())
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}
