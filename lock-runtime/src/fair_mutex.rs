//! [`FairMutex`]: a mutex with one queue for all processes.
// S-26.

use crate::acquire::{Acquire, Handle, Run, TryRun, lock_options};
use crate::guard::LockGuard;

/// A distributed mutex that serves waiters of all processes in the order in which they arrived.
///
/// The queue is kept in the store, so each waiting task costs a place there and a sign of life every 1.7 s; holds are never
/// handed on inside a process. Use it where order matters and [`Mutex`](crate::Mutex) where speed does. Waiters that died delay
/// the queue for five seconds in all.
///
/// Redisson's `getFairLock` of the same name is the same lock. When a Java client acquires the lock or stops
/// waiting, it shifts the timeouts of all waiters in the queue by its own waiting time (five minutes by
/// default). This crate's waiters allow for that and keep their place, unless a Java client ahead of them has
/// already waited for minutes; then they may have to queue anew. A Java client whose clock is ahead of the
/// server's by more than the waiter lease removes this crate's waiters at once.
///
/// If a client of this crate holds the name as another kind of lock, a [`Mutex`](crate::Mutex) included, the
/// acquire fails with [`KeyCollision`](crate::LockError::KeyCollision). Redisson's plain lock looks like its fair one,
/// so an acquire waits for a Java client's hold of either kind.
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

lock_options!(FairMutex);

impl FairMutex {
    pub(crate) fn new(handle: Handle) -> Self {
        Self(handle)
    }

    fn map(self, change: impl Fn(Handle) -> Handle) -> Self {
        Self(change(self.0))
    }

    /// Acquires the lock once every waiter ahead in the queue has had it, and waits as long as the options
    /// allow.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue at once. A lock that was granted meanwhile is
    /// released in the background.
    #[track_caller]
    pub fn lock(&self) -> Acquire {
        self.0.lock()
    }

    /// Acquires the lock if it is free and has no waiters. Returns `Ok(None)` if not.
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
    #[track_caller]
    pub fn try_run<F: Future>(&self, body: F) -> TryRun<F> {
        self.0.try_run(body)
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.0
    }
}
