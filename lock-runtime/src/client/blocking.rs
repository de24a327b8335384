//! The methods of clients that block.

use std::sync::Arc;
use std::time::Duration;

use super::{LockClient, LockClientBuilder, Shutdown};
use crate::error::LockError;
use crate::own_runtime::block_on;
use crate::scope::{self, Link};

impl LockClientBuilder {
    /// Connects to one Redis server from code without async: see [`connect`](Self::connect) for the address, and
    /// [`block_on`] for what else such code calls. Other places are connected by `block_on`, such as
    /// `block_on(LockClient::builder().connect_cluster(nodes))`.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect), and [`LockError::InAsyncTask`] in an async task.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use lock_runtime::LockClient;
    /// use std::time::Duration;
    ///
    /// let client = LockClient::builder().namespace("shop").connect_blocking("redis://127.0.0.1:6379")?;
    /// client.install(); // annotated functions use it from here on
    /// let guard = client.mutex("order:42").blocking_lock()?;
    /// guard.blocking_release()?;
    /// client.blocking_shutdown(Duration::from_secs(5))?; // the last line of `main`
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    #[cfg(feature = "redis")]
    pub fn connect_blocking(self, url: &str) -> Result<LockClient, LockError> {
        block_on(self.connect(url))
    }
}

impl LockClient {
    /// Closes the client from code without async: see [`shutdown`](Self::shutdown). Call it at the end of `main`.
    ///
    /// # Errors
    ///
    /// [`LockError::InAsyncTask`] in an async task, and [`LockError::Store`] in a fork of the client's process; the client is
    /// then not closed.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::LockClient;
    /// use std::time::Duration;
    ///
    /// let client = LockClient::in_memory();
    /// drop(client.mutex("order:42").blocking_lock()?);
    /// assert!(client.blocking_shutdown(Duration::from_secs(5))?.is_clean());
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    pub fn blocking_shutdown(&self, grace: Duration) -> Result<Shutdown, LockError> {
        block_on(async {
            self.engine.leases.check_caller()?;
            Ok(self.shutdown(grace).await)
        })
    }

    /// Calls `body` with this client as the default of annotated functions that it calls on this thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::{LockClient, LockError, distributed_lock};
    ///
    /// #[distributed_lock(key = "stock")]
    /// fn count() -> Result<u32, LockError> {
    ///     Ok(3)
    /// }
    ///
    /// assert_eq!(LockClient::in_memory().scope_blocking(count)?, 3);
    /// # Ok::<_, LockError>(())
    /// ```
    pub fn scope_blocking<T>(&self, body: impl FnOnce() -> T) -> T {
        let _entered = scope::enter(Some(Link::client(Arc::new(self.clone()))));
        body()
    }
}
