//! The methods of locks and guards that block: `blocking_lock`, `run_blocking` and their like.

use std::future::poll_fn;

use crate::acquire::{Handle, after_body};
use crate::any_lock::AnyLock;
use crate::error::LockError;
use crate::fair_mutex::FairMutex;
use crate::guard::LockGuard;
use crate::multi_lock::MultiLock;
use crate::mutex::Mutex;
use crate::options::ReleaseTerms;
use crate::own_runtime::block_on;
use crate::rw_lock::RwLock;
use crate::semaphore::Semaphore;

impl Handle {
    #[track_caller]
    fn blocking_lock(&self) -> Result<LockGuard, LockError> {
        block_on(self.lock())
    }

    #[track_caller]
    fn run_blocking<T>(&self, body: impl FnOnce(&LockGuard) -> T) -> Result<T, LockError> {
        let guard = self.blocking_lock()?;
        let result = guard.run_blocking(body);
        guard.release_after(result, self.release_terms())
    }
}

/// The blocking methods of a kind that is locked as a whole.
macro_rules! blocking_lock {
    ($($Kind:ident)*) => {$(
        impl $Kind {
            /// Acquires the lock on a thread, as [`lock`](Self::lock) does in a task. For code without async: see
            /// [`block_on`].
            ///
            /// # Errors
            ///
            /// As [`lock`](Self::lock), and [`LockError::InAsyncTask`] in an async task.
            #[doc = concat!(
                "\n# Examples\n\n```\nuse lock_runtime::{", stringify!($Kind), ", LockError};\n\n",
                "fn work(lock: &", stringify!($Kind), ") -> Result<(), LockError> {\n",
                "    let guard = lock.blocking_lock()?;\n    guard.check()?; // in loops, too\n",
                "    guard.blocking_release()\n}\n```"
            )]
            #[track_caller]
            pub fn blocking_lock(&self) -> Result<LockGuard, LockError> {
                self.handle().blocking_lock()
            }

            /// Acquires the lock, calls `body` on this thread and releases the lock. The body gets the guard, to
            /// [`check`](LockGuard::check) that the hold was not lost. For code without async: see [`block_on`].
            ///
            /// # Errors
            ///
            /// - As [`blocking_lock`](Self::blocking_lock); the body was then not called.
            /// - [`LockError::Lost`] if the hold was lost while the body ran. The body ran to its end, and its value is
            ///   dropped.
            /// - [`LockError::Lost`] if the body ended in time, but the release found the hold gone and the options say
            ///   [`OnReleaseLost::Error`](crate::options::OnReleaseLost::Error). Else the value is returned, and the log
            ///   has a warning, as for every other failure of the release.
            #[doc = concat!(
                "\n# Examples\n\n```\nuse lock_runtime::{", stringify!($Kind), ", LockError};\n\n",
                "fn work(lock: &", stringify!($Kind), ") -> Result<String, LockError> {\n",
                "    lock.run_blocking(|hold| format!(\"token {}\", hold.token()))\n}\n```"
            )]
            // S-13.
            #[track_caller]
            pub fn run_blocking<T>(
                &self,
                body: impl FnOnce(&LockGuard) -> T,
            ) -> Result<T, LockError> {
                self.handle().run_blocking(body)
            }
        }
    )*};
}

blocking_lock!(Mutex FairMutex MultiLock AnyLock);

impl RwLock {
    /// Acquires the read side on a thread, as [`read`](Self::read) does in a task. For code without async: see
    /// [`block_on`].
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and [`LockError::InAsyncTask`] in an async task.
    ///
    /// # Examples
    ///
    /// ```
    /// let prices = lock_runtime::LockClient::in_memory().rw_lock("prices");
    /// let (one, two) = (prices.blocking_read()?, prices.blocking_read()?);
    /// one.blocking_release()?;
    /// two.blocking_release()?;
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    #[track_caller]
    pub fn blocking_read(&self) -> Result<LockGuard, LockError> {
        self.sides().0.blocking_lock()
    }

    /// Acquires the write side on a thread, as [`write`](Self::write) does in a task. For code without async: see
    /// [`block_on`].
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write), and [`LockError::InAsyncTask`] in an async task.
    ///
    /// # Examples
    ///
    /// ```
    /// let prices = lock_runtime::LockClient::in_memory().rw_lock("prices");
    /// prices.blocking_write()?.blocking_release()?;
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    #[track_caller]
    pub fn blocking_write(&self) -> Result<LockGuard, LockError> {
        self.sides().1.blocking_lock()
    }

    /// Acquires the read side, calls `body` on this thread and releases the read side. See [`Mutex::run_blocking`].
    ///
    /// # Errors
    ///
    /// As [`Mutex::run_blocking`].
    ///
    /// # Examples
    ///
    /// ```
    /// let prices = lock_runtime::LockClient::in_memory().rw_lock("prices");
    /// assert_eq!(prices.run_read_blocking(|_hold| 3)?, 3);
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    #[track_caller]
    pub fn run_read_blocking<T>(&self, body: impl FnOnce(&LockGuard) -> T) -> Result<T, LockError> {
        self.sides().0.run_blocking(body)
    }

    /// Acquires the write side, calls `body` on this thread and releases the write side. See [`Mutex::run_blocking`].
    ///
    /// # Errors
    ///
    /// As [`Mutex::run_blocking`].
    ///
    /// # Examples
    ///
    /// ```
    /// let prices = lock_runtime::LockClient::in_memory().rw_lock("prices");
    /// prices.run_write_blocking(|hold| hold.check())??;
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    #[track_caller]
    pub fn run_write_blocking<T>(
        &self,
        body: impl FnOnce(&LockGuard) -> T,
    ) -> Result<T, LockError> {
        self.sides().1.run_blocking(body)
    }
}

impl Semaphore {
    /// Acquires one permit on a thread, as [`acquire`](Self::acquire) does in a task. For code without async: see
    /// [`block_on`].
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`LockError::InAsyncTask`] in an async task.
    #[track_caller]
    pub fn blocking_acquire(&self) -> Result<LockGuard, LockError> {
        self.of(1).blocking_lock()
    }

    /// Acquires one permit, calls `body` on this thread and releases the permit. See [`Mutex::run_blocking`].
    ///
    /// # Errors
    ///
    /// As [`Mutex::run_blocking`].
    #[track_caller]
    pub fn run_blocking<T>(&self, body: impl FnOnce(&LockGuard) -> T) -> Result<T, LockError> {
        self.of(1).run_blocking(body)
    }
}

impl LockGuard {
    /// Calls `body` on this thread, inside of the hold. The body gets this guard, for [`check`](Self::check).
    ///
    /// Code that the body calls on this thread re-enters the lock: no round trip, the same fencing token. Threads with
    /// [inherited](crate::scope::inherit_blocking) holds re-enter it one after the other, each within its own `wait`; only
    /// reads share. A guard without a running `run` does not count as enclosing: after `let a = lock.blocking_lock()?`, a
    /// second `lock.blocking_lock()` in the same function waits until `a` is dropped.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the hold was lost before, and then `body` is not called; or if it was lost while `body` ran,
    /// which goes on to its end, and whose value is then dropped: see [`block_on`].
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::LockClient;
    ///
    /// let client = LockClient::in_memory();
    /// let guard = client.mutex("cart:7").blocking_lock()?;
    /// guard.run_blocking(|hold| {
    ///     let again = client.mutex("cart:7").blocking_lock()?; // re-entry
    ///     assert_eq!(again.token(), hold.token());
    ///     again.blocking_release()
    /// })??;
    /// guard.blocking_release()?;
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    // S-13, S-6.
    pub fn run_blocking<T>(&self, body: impl FnOnce(&Self) -> T) -> Result<T, LockError> {
        self.call(true, || body(self))
    }

    /// Releases the lock and waits on this thread for the store's answer: see [`release`](Self::release).
    ///
    /// # Errors
    ///
    /// As [`release`](Self::release), and [`LockError::InAsyncTask`] in an async task; the lock is then released in the
    /// background.
    ///
    /// # Examples
    ///
    /// ```
    /// let client = lock_runtime::LockClient::in_memory();
    /// client.mutex("cart:7").blocking_lock()?.blocking_release()?;
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    pub fn blocking_release(self) -> Result<(), LockError> {
        block_on(self.release())
    }

    /// Releases the lock after a call of a body, and returns what the caller of both gets.
    pub(crate) fn release_after<T>(
        self,
        result: Result<T, LockError>,
        terms: ReleaseTerms,
    ) -> Result<T, LockError> {
        let mut release = self.release_within(terms.timeout);
        let released = poll_fn(|cx| release.poll(cx).map(Option::transpose));
        let released = block_on(released).transpose();
        result.and_then(|value| after_body(released, terms, release.hold()).map(|()| value))
    }
}
