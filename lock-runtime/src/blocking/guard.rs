//! [`LockGuard`], and the run of a body between an acquire and a release.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::acquire::after_body;
use crate::error::LockError;
use crate::fence::FencingToken;
use crate::guard::{LockGuard as AsyncGuard, LockWatch};
use crate::key::LockKey;
use crate::options::OnReleaseLost;
use crate::own_runtime::Driver;

/// A guard that holds a lock until it is released, dropped, or lost.
///
/// The client's thread renews the lease while the guard lives, unless the lease is fixed. A body that runs under the guard
/// cannot be stopped: call [`check`](Self::check) in its loops. The [module](super) says what a loss means.
///
/// Dropping the guard releases the lock in the background, without blocking, also while a panic unwinds;
/// [`release`](Self::release) waits for the answer.
///
/// # Examples
///
/// ```
/// use lock_runtime::blocking::LockClient;
///
/// let client = LockClient::in_memory()?;
/// let guard = client.mutex("order:42").lock()?;
/// for part in ["reserve", "charge", "ship"] {
///     guard.check()?;
///     println!("{part} with token {}", guard.token());
/// }
/// guard.release()?;
/// # Ok::<_, lock_runtime::LockError>(())
/// ```
// S-12.
#[must_use = "the lock is released as soon as the guard is dropped"]
#[clippy::has_significant_drop]
pub struct LockGuard {
    // Before the driver: fields are dropped in this order, and the runtime finishes the release.
    guard: AsyncGuard,
    driver: Driver,
}

impl LockGuard {
    pub(crate) fn new(guard: AsyncGuard, driver: &Driver) -> Self {
        Self { guard, driver: driver.clone() }
    }

    /// Returns the lock's full name, namespace included.
    #[must_use]
    pub fn key(&self) -> &LockKey {
        self.guard.key()
    }

    /// Returns the fencing token of this hold; the same for every nested guard.
    // S-23.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.guard.token()
    }

    /// Returns the time left until the lease ends if nothing renews it; zero once lost. See
    /// [`LockGuard::remaining`](crate::LockGuard::remaining).
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// Returns true once the hold is lost, and never false after that.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.guard.is_lost()
    }

    /// Checks that the hold was not lost, without a round trip: cheap enough for every turn of a loop.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] once the hold is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::LockError;
    /// use lock_runtime::blocking::LockGuard;
    ///
    /// fn copy(rows: &[u64], hold: &LockGuard) -> Result<u64, LockError> {
    ///     let mut sum = 0;
    ///     for row in rows {
    ///         hold.check()?;
    ///         sum += row;
    ///     }
    ///     Ok(sum)
    /// }
    /// # let client = lock_runtime::blocking::LockClient::in_memory()?;
    /// # assert_eq!(client.mutex("rows").run(|hold| copy(&[1, 2], hold))??, 3);
    /// # Ok::<_, LockError>(())
    /// ```
    // S-12.
    pub fn check(&self) -> Result<(), LockError> {
        self.guard.hold().ensure_held().map(drop)
    }

    /// Returns an observer of the hold that does not keep it, for code that may outlive the guard: it is over once the guard
    /// is released or dropped.
    pub fn watch(&self) -> LockWatch {
        self.guard.watch()
    }

    /// Runs `body` on this thread, inside of the hold. The body gets this guard, for [`check`](Self::check).
    ///
    /// Code that the body calls on this thread re-enters the lock: no round trip, the same fencing token. Threads with
    /// [inherited](super::inherit) holds re-enter it one after the other, each within its own `wait`; only reads share. A
    /// guard without a running `run` does not count as enclosing: after `let a = lock.lock()?`, a second `lock.lock()` in
    /// the same function waits until `a` is dropped.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the hold was lost before, and then `body` is not called; or if it was lost while `body` ran,
    /// which goes on to its end, and whose value is then dropped. The [module](super) says what that means.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::blocking::LockClient;
    ///
    /// let client = LockClient::in_memory()?;
    /// let guard = client.mutex("cart:7").lock()?;
    /// guard.run(|hold| {
    ///     let again = client.mutex("cart:7").lock()?; // re-entry
    ///     assert_eq!(again.token(), hold.token());
    ///     again.release()
    /// })??;
    /// guard.release()?;
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    // S-13, S-6.
    pub fn run<T>(&self, body: impl FnOnce(&Self) -> T) -> Result<T, LockError> {
        self.guard.call(true, || body(self))
    }

    /// Makes the store keep the lock for at least `lease` from now. Never shortens it.
    ///
    /// # Errors
    ///
    /// - [`LockError::InvalidOptions`] if `lease` is below 100 ms or above 24 h.
    /// - [`LockError::Lost`] if the hold is lost.
    /// - [`LockError::Store`] if the store did not answer; the deadline is then unchanged.
    /// - [`LockError::InAsyncTask`] in an async task.
    // S-9.
    pub fn extend(&self, lease: Duration) -> Result<(), LockError> {
        self.driver.wait(self.guard.extend(lease))
    }

    /// Releases the lock and waits for the store's answer: see [`LockGuard::release`](crate::LockGuard::release).
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] if the hold was lost before: another holder may have run at the same time as the code under
    ///   it.
    /// - [`LockError::Store`] if the store could not be reached; the lock is free at the latest when its lease ends.
    /// - [`LockError::InAsyncTask`] in an async task; the lock is then released in the background.
    // S-14.
    pub fn release(self) -> Result<(), LockError> {
        self.driver.wait(self.guard.release())
    }

    /// Runs `body` and releases the lock. A call that is not enforced ignores a loss.
    pub(crate) fn run_and_release<T>(
        self,
        enforced: bool,
        on_release_lost: OnReleaseLost,
        body: impl FnOnce(&Self) -> T,
    ) -> Result<T, LockError> {
        let hold = Arc::clone(self.guard.hold());
        let result = self.guard.call(enforced, || body(&self));
        let released = self.release();
        result.and_then(|value| after_body(released, on_release_lost, &hold).map(|()| value))
    }
}

impl AsRef<LockGuard> for LockGuard {
    fn as_ref(&self) -> &LockGuard {
        self
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(f)
    }
}
