//! [`Quorum`], its builder and its lock.

use std::sync::Arc;

use super::LockClient;
use super::locks::blocking_lock;
use crate::error::LockError;
use crate::key::IntoLockKey;
use crate::own_runtime::Driver;
use crate::quorum::{Quorum as AsyncQuorum, QuorumBuilder as AsyncBuilder};
use crate::store::Store;

blocking_lock! {
    /// A mutex that a majority of independent servers must grant, for code without async: see
    /// [`QuorumLock`](crate::QuorumLock).
    ///
    /// Made by [`Quorum::lock`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[cfg(feature = "redis")] {
    /// use lock_runtime::quorum::Quorum;
    /// use std::time::Duration;
    ///
    /// let settings = Quorum::builder().restart_guard(Duration::from_secs(30));
    /// let quorum = settings.blocking().connect(["redis://one", "redis://two", "redis://three"])?;
    /// quorum.lock("leader").run(|hold| println!("leader with token {}", hold.token()))?;
    /// # }
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    QuorumLock
}

/// Independent servers, a majority of which keeps each lock, for code without async: see
/// [`Quorum`](crate::quorum::Quorum).
///
/// Made by [`QuorumBuilder`].
#[derive(Debug, Clone)]
pub struct Quorum {
    quorum: AsyncQuorum,
}

impl Quorum {
    /// Returns the lock of that name. Cheap; locking it fails if the name is invalid.
    pub fn lock(&self, name: impl IntoLockKey) -> QuorumLock {
        QuorumLock::new(self.quorum.lock(name), self.quorum.client().driver())
    }

    /// Returns a client whose mutexes are these locks, for annotated functions and for
    /// [shutdown](LockClient::shutdown). It supports no other kinds.
    #[must_use]
    pub fn client(&self) -> LockClient {
        LockClient::from(self.quorum.client().clone())
    }
}

/// Connects a [`Quorum`] with the settings of an async builder: made by
/// [`QuorumBuilder::blocking`](crate::quorum::QuorumBuilder::blocking).
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it makes a quorum"]
pub struct QuorumBuilder(AsyncBuilder);

impl AsyncBuilder {
    /// Connects a quorum for code without async, with these settings.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::quorum::Quorum;
    /// use lock_runtime::store::{MemoryStore, Store};
    /// use std::sync::Arc;
    ///
    /// // Of one, for a test: a mutex in memory.
    /// let store = Arc::new(MemoryStore::new()) as Arc<dyn Store>;
    /// let quorum = Quorum::builder().without_restart_guard().blocking().stores([store])?;
    /// let guard = quorum.lock("leader").lock()?;
    /// assert!(quorum.lock("leader").try_lock()?.is_none());
    /// guard.release()?;
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    pub fn blocking(self) -> QuorumBuilder {
        QuorumBuilder(self)
    }
}

impl QuorumBuilder {
    /// Connects to all servers and returns once a majority is connected.
    ///
    /// # Errors
    ///
    /// As [`QuorumBuilder::connect`](crate::quorum::QuorumBuilder::connect), and [`LockError::InAsyncTask`] in an async
    /// task.
    #[cfg(feature = "redis")]
    pub fn connect<U: AsRef<str>>(
        self,
        urls: impl IntoIterator<Item = U>,
    ) -> Result<Quorum, LockError> {
        Driver::check()?;
        let driver = Driver::start()?;
        let connect = self.0.driver(driver.clone()).connect(urls);
        Ok(Quorum { quorum: driver.wait(connect)? })
    }

    /// Builds a quorum of these stores, one for each server.
    ///
    /// # Errors
    ///
    /// As [`QuorumBuilder::stores`](crate::quorum::QuorumBuilder::stores).
    pub fn stores(
        self,
        stores: impl IntoIterator<Item = Arc<dyn Store>>,
    ) -> Result<Quorum, LockError> {
        let driver = Driver::start()?;
        let settings = self.0.driver(driver.clone());
        Ok(Quorum { quorum: driver.enter(|| settings.stores(stores))?? })
    }
}
