//! [`LockWatch`]: observes a hold without keeping it.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use super::LockGuard;
#[cfg(feature = "redis")]
use super::RedisCommand;
use super::run::Alarm;
use crate::error::LockError;
#[cfg(feature = "redis")]
use crate::error::LossCause;
use crate::fence::FencingToken;
use crate::key::LockKey;
use crate::lease::Hold;
#[cfg(feature = "redis")]
use crate::lease::manager::LeaseManager;
use crate::lease::watched::Watched;
use crate::observe::log_lock;
use crate::scope;

/// An observer of a guard's hold that does not keep it: made by [`LockGuard::watch`].
///
/// It is over once its guard is released or dropped, also if the hold passes to a waiter of this process, or other readers
/// or the code around a re-entry go on with it: then [`check`](Self::check) fails with [`LossCause::Released`]. A re-entry
/// that outlives the guard around it keeps the hold, and the watch of that guard goes on until it ends, too. A hold that was
/// lost before stays lost.
///
/// [`LossCause::Released`]: crate::error::LossCause::Released
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use lock_runtime::LockClient;
///
/// let guard = LockClient::in_memory().mutex("order:42").lock().await?;
/// let watch = guard.watch();
/// let work = tokio::task::spawn_blocking(move || {
///     while watch.check().is_ok() {
///         // A step of work that no await can stop.
///         std::thread::sleep(std::time::Duration::from_millis(1));
///     }
/// });
/// guard.release().await?; // the work stops before its next step
/// work.await.unwrap();
/// # Ok::<_, lock_runtime::LockError>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LockWatch {
    watched: Watched,
}

impl LockWatch {
    pub(super) fn new(guard: &LockGuard) -> Self {
        Self { watched: guard.watched() }
    }

    /// The innermost hold around the calling code.
    pub(super) fn enclosing() -> Option<Self> {
        scope::enclosing_guard().map(|watched| Self { watched })
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.watched.hold
    }

    /// As [`LockGuard::key`].
    #[must_use]
    pub fn key(&self) -> &LockKey {
        self.watched.hold.target.key()
    }

    /// As [`LockGuard::token`].
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.watched.token
    }

    /// As [`LockGuard::remaining`]; zero once the guard is released.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.watched.remaining()
    }

    /// Returns true once the hold is lost or the guard is released, and never false after that.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.watched.check().is_err()
    }

    /// Checks that the guard still has the hold.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] once the hold is lost, and once the guard is released, with the cause
    /// [`Released`](crate::error::LossCause::Released).
    pub fn check(&self) -> Result<(), LockError> {
        self.watched.ensure_held()
    }

    /// As [`LockGuard::redis`]; refused as [`Released`](crate::error::LossCause::Released) once the guard is released.
    #[cfg(feature = "redis")]
    pub fn redis(&self, command: impl Into<String>) -> RedisCommand {
        RedisCommand::new(self.clone(), command.into())
    }

    /// What the client keeps holds with.
    #[cfg(feature = "redis")]
    pub(super) fn leases(&self) -> Result<Arc<LeaseManager>, LockError> {
        self.watched.leases.upgrade().ok_or_else(|| self.released())
    }

    /// The error once the guard is released.
    #[cfg(feature = "redis")]
    pub(super) fn released(&self) -> LockError {
        self.watched.hold.lost_error(LossCause::Released)
    }

    /// Waits until the hold is lost or the guard is released, and returns which, as [`check`](Self::check) does.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn lost(&self) -> LockError {
        let hold = &self.watched.hold;
        let mut alarm = std::pin::pin!(Alarm::default());
        let told = || self.watched.told();
        let cause =
            poll_fn(|cx| alarm.as_mut().poll_until(hold, told, || self.watched.check(), cx)).await;
        hold.lost_error(cause)
    }
}

/// Logs an event of the hold, with the fields that every such line has.
impl LockWatch {
    pub(crate) fn log_warn(&self, error: Option<&(dyn Error + 'static)>, what: &str) {
        log_lock!(warn, self.key(), self.watched.hold.recorder.label(), error, "{what}");
    }

    pub(crate) fn log_debug(&self, what: &str) {
        log_lock!(debug, self.key(), self.watched.hold.recorder.label(), "{what}");
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
            .field("token", &self.watched.token)
            .finish_non_exhaustive()
    }
}
