//! [`LockClientBuilder`], which connects blocking clients.

use super::LockClient;
use crate::client::{LockClient as AsyncClient, LockClientBuilder as AsyncBuilder};
use crate::error::LockError;
use crate::own_runtime::Driver;
#[cfg(feature = "policy")]
use crate::policy::LockConfig;
use crate::store::Store;

/// Connects a [`LockClient`] with the settings of an async builder: made by
/// [`LockClientBuilder::blocking`](crate::LockClientBuilder::blocking).
///
/// Each client has a thread of its own.
///
/// # Examples
///
/// ```no_run
/// # #[cfg(feature = "redis")] {
/// use lock_runtime::LockClient;
/// use std::time::Duration;
///
/// let settings = LockClient::builder().namespace("shop").store_patience(Duration::from_secs(2));
/// let client = settings.blocking().connect("redis://:secret@redis.internal/2")?;
/// # }
/// # Ok::<_, lock_runtime::LockError>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it makes a client"]
pub struct LockClientBuilder(AsyncBuilder);

impl AsyncBuilder {
    /// Connects a client for code without async, with these settings.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::LockClient;
    ///
    /// let client = LockClient::builder().namespace("shop").blocking().in_memory()?;
    /// assert_eq!(client.mutex("order:42").lock()?.key().as_str(), "shop:order:42");
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    pub fn blocking(self) -> LockClientBuilder {
        LockClientBuilder(self)
    }
}

impl LockClientBuilder {
    /// Connects to one Redis server: see [`LockClient::connect`].
    ///
    /// # Errors
    ///
    /// As [`LockClientBuilder::connect`](crate::LockClientBuilder::connect), and [`LockError::InAsyncTask`] in an async
    /// task.
    #[cfg(feature = "redis")]
    pub fn connect(self, url: &str) -> Result<LockClient, LockError> {
        self.wait(|settings| settings.connect(url))
    }

    /// Connects to the master that sentinels report.
    ///
    /// # Errors
    ///
    /// As [`LockClientBuilder::connect_sentinel`](crate::LockClientBuilder::connect_sentinel), and
    /// [`LockError::InAsyncTask`] in an async task.
    #[cfg(feature = "redis")]
    pub fn connect_sentinel<U: AsRef<str>>(
        self,
        master: &str,
        nodes: impl IntoIterator<Item = U>,
    ) -> Result<LockClient, LockError> {
        self.wait(|settings| settings.connect_sentinel(master, nodes))
    }

    /// Connects to a Redis Cluster through the first of these nodes that answers.
    ///
    /// # Errors
    ///
    /// As [`LockClientBuilder::connect_cluster`](crate::LockClientBuilder::connect_cluster), and
    /// [`LockError::InAsyncTask`] in an async task.
    #[cfg(feature = "redis")]
    pub fn connect_cluster<U: AsRef<str>>(
        self,
        nodes: impl IntoIterator<Item = U>,
    ) -> Result<LockClient, LockError> {
        self.wait(|settings| settings.connect_cluster(nodes))
    }

    /// Creates a client of one Redis server that may not be running yet.
    ///
    /// # Errors
    ///
    /// As [`LockClientBuilder::connect_lazy`](crate::LockClientBuilder::connect_lazy).
    #[cfg(feature = "redis")]
    pub fn connect_lazy(self, url: &str) -> Result<LockClient, LockError> {
        self.enter(|settings| settings.connect_lazy(url))
    }

    /// Connects to the address of the configuration, and follows it.
    ///
    /// # Errors
    ///
    /// As [`LockClientBuilder::connect_config`](crate::LockClientBuilder::connect_config), and
    /// [`LockError::InAsyncTask`] in an async task.
    #[cfg(feature = "policy")]
    pub fn connect_config(self, config: LockConfig) -> Result<LockClient, LockError> {
        self.wait(|settings| settings.connect_config(config))
    }

    /// Creates a client of a new in-memory store.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOptions`] or [`LockError::InvalidKey`] if a setting is invalid, and [`LockError::Store`] if the
    /// client's thread cannot be started.
    pub fn in_memory(self) -> Result<LockClient, LockError> {
        self.enter(AsyncBuilder::in_memory)
    }

    /// Creates a client of this store.
    ///
    /// # Errors
    ///
    /// As [`in_memory`](Self::in_memory).
    pub fn store(self, store: impl Store) -> Result<LockClient, LockError> {
        self.enter(|settings| settings.store(store))
    }

    /// Makes a client that takes time to connect.
    #[cfg(any(feature = "policy", feature = "redis"))]
    fn wait<F>(self, connect: impl FnOnce(AsyncBuilder) -> F) -> Result<LockClient, LockError>
    where
        F: Future<Output = Result<AsyncClient, LockError>>,
    {
        Driver::check()?;
        let driver = Driver::start()?;
        let connecting = connect(self.0.driver(driver.clone()));
        driver.wait(connecting).map(LockClient::from)
    }

    /// Makes a client that takes no time to connect.
    fn enter(
        self,
        make: impl FnOnce(AsyncBuilder) -> Result<AsyncClient, LockError>,
    ) -> Result<LockClient, LockError> {
        let driver = Driver::start()?;
        let settings = self.0.driver(driver.clone());
        driver.enter(|| make(settings))?.map(LockClient::from)
    }
}
