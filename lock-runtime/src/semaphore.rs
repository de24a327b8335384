//! [`Semaphore`]: a limited number of leased permits.
// S-30.

use crate::acquire::{Acquire, Handle, Run, TryRun, lock_options};
use crate::error::LockError;
use crate::guard::LockGuard;

/// Most permits of one acquire: each is an entry of its own in the store, as Redisson has it.
const MOST_AT_ONCE: u32 = 1024;

/// A distributed semaphore: at most `limit` permits are in use at a time across every process that shares the
/// store.
///
/// Permits are leased and renewed like any lock, so those of a process that died become free. The limit is the
/// caller's: an acquire succeeds if, with it, no more than *its* limit are in use. After a limit was lowered,
/// no permit is granted until fewer are in use.
///
/// A semaphore is not re-entrant: each acquire needs permits of its own, so a task that holds the last permit
/// and waits for another waits for itself.
///
/// Waiting tasks of one process that give the same limit are served strictly first in, first out: one that needs
/// three permits blocks those behind it that need one, because it might never be served otherwise. Tasks that give
/// another limit have a queue of their own, so after a change of the limit none waits behind an old one. Among processes there is no
/// order, so an acquire of several permits waits until that many are free at once. The `try_` forms do not
/// queue and acquire free permits, even ahead of tasks that wait for more.
///
/// Redisson's `getPermitExpirableSemaphore` of the same name is the same semaphore. If Redisson created it, the
/// limit must be its number of permits; another limit is a [`KeyCollision`](LockError::KeyCollision), because
/// the number of permits of such a semaphore looks like the count of its latch. The count of a
/// [`CountDownLatch`](crate::CountDownLatch) always is a collision. One case cannot be detected: a Java
/// client's latch whose count equals the limit looks like that client's semaphore with no permit in use. If a
/// client of this crate created the semaphore, Redisson's clients see the limit of its last acquire.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use lock_runtime::LockClient;
///
/// let client = LockClient::in_memory();
/// let two = client.semaphore("reports", 2);
/// let (one, other) = (two.acquire().await?, two.acquire().await?);
/// assert!(two.try_acquire().await?.is_none());
/// one.release().await?;
/// assert!(two.try_acquire().await?.is_some());
/// # drop(other);
/// # Ok::<_, lock_runtime::LockError>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a semaphore does nothing until it is acquired"]
pub struct Semaphore {
    handle: Handle,
    limit: u32,
}

lock_options!(Semaphore);

impl Semaphore {
    pub(crate) fn new(handle: Handle, limit: u32) -> Self {
        Self { handle, limit }
    }

    fn map(self, change: impl Fn(Handle) -> Handle) -> Self {
        Self { handle: change(self.handle), ..self }
    }

    /// Returns how many permits there are.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Acquires one permit once one is free.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock), and [`LockError::InvalidOptions`] if the limit is zero.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue. Permits that were granted meanwhile are released in
    /// the background.
    #[track_caller]
    pub fn acquire(&self) -> Acquire {
        self.handle.lock()
    }

    /// Acquires `permits` permits once that many are free at once. They end and are released together.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`LockError::InvalidOptions`] if `permits` is zero or exceeds the limit or
    /// 1024.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    #[track_caller]
    pub fn acquire_many(&self, permits: u32) -> Acquire {
        self.of(permits).lock()
    }

    /// Acquires one permit if one is free. Returns `Ok(None)` if not.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), except that being busy is not an error.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    #[track_caller]
    pub fn try_acquire(&self) -> Acquire<Option<LockGuard>> {
        self.handle.try_lock()
    }

    /// Acquires `permits` permits if that many are free. Returns `Ok(None)` if not.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many), except that being busy is not an error.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    #[track_caller]
    pub fn try_acquire_many(&self, permits: u32) -> Acquire<Option<LockGuard>> {
        self.of(permits).try_lock()
    }

    /// Acquires one permit, runs `body` under it and releases it: [`acquire`](Self::acquire),
    /// [`LockGuard::run`] and [`LockGuard::release`] in one call.
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
        self.handle.run(body)
    }

    /// As [`run`](Self::run), for a body that returns a `Result` whose error a [`LockError`] can become: one `?` for
    /// both.
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
        self.handle.try_run(body)
    }

    /// Returns the lock that acquires that many permits.
    pub(crate) fn of(&self, permits: u32) -> Handle {
        let detail = if permits == 0 {
            "0 permits are wanted of a semaphore; ask for at least one".to_owned()
        } else if permits > self.limit {
            format!(
                "{permits} permits are wanted of a semaphore that has {}; ask for fewer or raise the \
                 limit",
                self.limit
            )
        } else if permits > MOST_AT_ONCE {
            format!(
                "{permits} permits are wanted at once; take at most {MOST_AT_ONCE} with one acquire"
            )
        } else {
            return self.handle.permits(permits);
        };
        Handle::invalid(LockError::InvalidOptions(detail))
    }
}
