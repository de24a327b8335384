//! The kinds that are locked as a whole: [`Mutex`], [`FairMutex`], [`AnyLock`] and, in modules of their own, `MultiLock`
//! and `QuorumLock`.

#[cfg(feature = "policy")]
use crate::policy::Policy;

/// `with`, `wait` and `lease` of a kind. Its `map` changes the async lock.
macro_rules! blocking_settings {
    ($Kind:ident) => {
        impl $Kind {
            /// Returns the same lock with `options` in place of all its options.
            ///
            /// Options in an `Arc` are shared; others are allocated.
            pub fn with(self, options: impl Into<std::sync::Arc<$crate::LockOptions>>) -> Self {
                self.map(|lock| lock.with(options))
            }

            /// Returns the same lock with another [`wait`](crate::options::LockOptionsBuilder::wait).
            ///
            /// A wait of zero is invalid; write [`Wait::Never`](crate::Wait::Never). Every acquire of a lock
            /// with an invalid value fails with
            /// [`LockError::InvalidOptions`](crate::LockError::InvalidOptions).
            pub fn wait(self, wait: impl Into<$crate::Wait>) -> Self {
                self.map(|lock| lock.wait(wait))
            }

            /// Returns the same lock with another [`lease`](crate::options::LockOptionsBuilder::lease).
            ///
            /// Every acquire of a lock with an invalid value fails with
            /// [`LockError::InvalidOptions`](crate::LockError::InvalidOptions).
            pub fn lease(self, lease: $crate::Lease) -> Self {
                self.map(|lock| lock.lease(lease))
            }
        }
    };
}
pub(super) use blocking_settings;

/// A kind that is locked as a whole: its type, and the methods that acquire it.
macro_rules! blocking_lock {
    ($(#[$docs:meta])* $Kind:ident) => {
        $(#[$docs])*
        #[derive(Debug, Clone)]
        #[must_use = "a lock does nothing until it is locked"]
        pub struct $Kind {
            // Before the driver: fields are dropped in this order.
            lock: $crate::$Kind,
            driver: $crate::own_runtime::Driver,
        }

        $crate::blocking::locks::blocking_settings!($Kind);

        impl $Kind {
            pub(super) fn new(lock: $crate::$Kind, driver: $crate::own_runtime::Driver) -> Self {
                Self { lock, driver }
            }

            fn map(self, change: impl FnOnce($crate::$Kind) -> $crate::$Kind) -> Self {
                Self { lock: change(self.lock), driver: self.driver }
            }

            /// Acquires the lock, and waits as long as the options allow; by default, forever.
            ///
            /// Inside [`LockGuard::run`](super::LockGuard::run) of the same lock this is re-entry: no round trip, the
            /// same token, and a release that only undoes the re-entry.
            ///
            /// # Errors
            ///
            #[doc = concat!("As [`lock`](crate::", stringify!($Kind), "::lock) of the async type, and")]
            /// [`LockError::InAsyncTask`](crate::LockError::InAsyncTask) in an async task.
            #[track_caller]
            pub fn lock(&self) -> Result<super::LockGuard, $crate::LockError> {
                let guard = self.driver.wait(self.lock.lock())?;
                Ok(super::LockGuard::new(guard, &self.driver))
            }

            /// Acquires the lock if it is free. Returns `Ok(None)` if another holder has it or a waiter goes first.
            ///
            /// # Errors
            ///
            /// As [`lock`](Self::lock), except that being busy is not an error.
            #[track_caller]
            pub fn try_lock(&self) -> Result<Option<super::LockGuard>, $crate::LockError> {
                let guard = self.driver.wait(self.lock.try_lock())?;
                Ok(guard.map(|guard| super::LockGuard::new(guard, &self.driver)))
            }

            /// Acquires the lock, runs `body` under it and releases it: [`lock`](Self::lock),
            /// [`LockGuard::run`](super::LockGuard::run) and [`LockGuard::release`](super::LockGuard::release) in one
            /// call.
            ///
            /// # Errors
            ///
            /// - As [`lock`](Self::lock); the body was then not called.
            /// - [`LockError::Lost`](crate::LockError::Lost) if the hold was lost while the body ran. The body ran to
            ///   its end, and its value is dropped.
            /// - [`LockError::Lost`](crate::LockError::Lost) if the body ended in time, but the release found the hold
            ///   gone and the options say [`OnReleaseLost::Error`](crate::options::OnReleaseLost::Error). Else the value
            ///   is returned, and the log has a warning, as for every other failure of the release.
            // S-13.
            #[track_caller]
            pub fn run<T>(
                &self,
                body: impl FnOnce(&super::LockGuard) -> T,
            ) -> Result<T, $crate::LockError> {
                let on_release_lost = self.lock.handle().on_release_lost();
                self.lock()?.run_and_release(true, on_release_lost, body)
            }
        }
    };
}
pub(super) use blocking_lock;

blocking_lock! {
    /// A distributed mutex, for code without async: see [`Mutex`](crate::Mutex).
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::blocking::LockClient;
    /// use std::time::Duration;
    ///
    /// let client = LockClient::in_memory()?;
    /// let order = client.mutex("order:42").wait(Duration::from_secs(2));
    /// let receipt = order.run(|hold| format!("paid with token {}", hold.token()))?;
    /// assert!(receipt.starts_with("paid"));
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    Mutex
}

blocking_lock! {
    /// A mutex that serves waiters of all processes in the order in which they arrived, for code without async: see
    /// [`FairMutex`](crate::FairMutex).
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::blocking::LockClient;
    ///
    /// let client = LockClient::in_memory()?;
    /// let guard = client.fair_mutex("ticket:desk").lock()?;
    /// guard.release()?;
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    FairMutex
}

blocking_lock! {
    /// A lock of a kind that is known at run time, for code without async: see [`AnyLock`](crate::AnyLock).
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::LockKind;
    /// use lock_runtime::blocking::LockClient;
    ///
    /// let client = LockClient::in_memory()?;
    /// let guard = client.any_lock(LockKind::Write, ["prices"]).lock()?;
    /// assert!(client.rw_lock("prices").try_read()?.is_none());
    /// guard.release()?;
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    AnyLock
}

impl AnyLock {
    /// Returns the same lock, which metrics and spans report as one of that policy: see
    /// [`AnyLock::follows`](crate::AnyLock::follows).
    #[cfg(feature = "policy")]
    pub fn follows(self, policy: &Policy) -> Self {
        self.map(|lock| lock.follows(policy))
    }
}

impl Mutex {
    pub(super) fn parts(self) -> (crate::Mutex, crate::own_runtime::Driver) {
        (self.lock, self.driver)
    }
}

impl FairMutex {
    pub(super) fn parts(self) -> (crate::FairMutex, crate::own_runtime::Driver) {
        (self.lock, self.driver)
    }
}
