//! [`LockClient`], which creates blocking locks.

use std::num::NonZeroU32;
use std::time::Duration;

use super::{AnyLock, CountDownLatch, FairMutex, MultiLock, Mutex, RwLock, Semaphore};
use crate::client::{LockClient as AsyncClient, Shutdown};
use crate::error::LockError;
use crate::key::IntoLockKey;
use crate::options::LockKind;
use crate::own_runtime::Driver;
#[cfg(feature = "policy")]
use crate::policy::LockConfig;
use crate::scope::{self, Link};
use crate::store::Inspection;

/// A client that creates locks for code without async. Cheap to clone: clones share one connection, one watchdog and the
/// thread in which both run.
///
/// Settings are those of the async builder: `lock_runtime::LockClient::builder()`, then
/// [`blocking`](crate::LockClientBuilder::blocking).
///
/// The thread ends with the last of the client's clones, locks and guards. The last one to be dropped waits up to 250 ms
/// for releases that are under way, except in an async task. An [installed](Self::install) client never ends by itself, so
/// call [`shutdown`](Self::shutdown) at the end of `main`: releases that are under way when a process exits are lost, and
/// their locks stay held until their leases end.
///
/// A process that forks leaves the thread behind: a program that becomes a daemon has to make its client after that. Calls
/// in the fork fail with [`LockError::Store`], and guards that are dropped there release nothing.
///
/// # Examples
///
/// ```no_run
/// # #[cfg(feature = "redis")] {
/// use lock_runtime::blocking::LockClient;
/// use std::time::Duration;
///
/// let client = LockClient::connect("redis://127.0.0.1:6379")?;
/// client.install(); // annotated functions use it from here on
/// let guard = client.mutex("order:42").lock()?;
/// guard.release()?;
/// client.shutdown(Duration::from_secs(5))?; // the last line of `main`
/// # }
/// # Ok::<_, lock_runtime::LockError>(())
/// ```
#[derive(Debug, Clone)]
pub struct LockClient {
    client: AsyncClient,
}

impl LockClient {
    /// Creates a client of a new in-memory store, whose locks exist in this process only.
    ///
    /// # Errors
    ///
    /// [`LockError::Store`] if the client's thread cannot be started.
    pub fn in_memory() -> Result<Self, LockError> {
        AsyncClient::builder().blocking().in_memory()
    }

    /// Connects to one Redis server: `redis://`, `rediss://` (feature `tls-rustls`) or `unix://`, with
    /// `user:password@`, `/database` and `?protocol` in the address.
    ///
    /// # Errors
    ///
    /// As [`LockClient::connect`](crate::LockClient::connect), and [`LockError::InAsyncTask`] in an async task.
    #[cfg(feature = "redis")]
    pub fn connect(url: &str) -> Result<Self, LockError> {
        AsyncClient::builder().blocking().connect(url)
    }

    /// Creates a client of a Redis server that may not be running yet.
    ///
    /// # Errors
    ///
    /// As [`LockClient::connect_lazy`](crate::LockClient::connect_lazy).
    #[cfg(feature = "redis")]
    pub fn connect_lazy(url: &str) -> Result<Self, LockError> {
        AsyncClient::builder().blocking().connect_lazy(url)
    }

    /// Connects to the address of the configuration, and follows the configuration.
    ///
    /// # Errors
    ///
    /// As [`LockClient::from_config`](crate::LockClient::from_config), and [`LockError::InAsyncTask`] in an async task.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::blocking::LockClient;
    /// use lock_runtime::policy::LockConfig;
    ///
    /// let config = LockConfig::from_toml(
    ///     r#"
    ///     [lock]
    ///     url = "memory:"     # redis://127.0.0.1:6379 for Redis
    ///     [lock.policies.checkout]
    ///     wait = "2s"
    ///     "#,
    /// )?;
    /// let client = LockClient::from_config(config)?;
    /// client.policy_lock("checkout", ["cart:7"]).run(|_hold| { /* the work */ })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "policy")]
    pub fn from_config(config: LockConfig) -> Result<Self, LockError> {
        AsyncClient::builder().blocking().connect_config(config)
    }

    /// Returns the async client that does the work: for what is the same in both, such as
    /// [`held`](crate::LockClient::held), [`health`](crate::LockClient::health), [`options`](crate::LockClient::options)
    /// and `reload`. Its async guards do not keep this client's thread, which renews them: keep the client, too.
    #[must_use]
    pub fn as_async(&self) -> &AsyncClient {
        &self.client
    }

    fn driver(&self) -> Driver {
        self.client.driver()
    }

    /// Returns the mutex of that name. Cheap; locking it fails if the name is invalid.
    pub fn mutex(&self, name: impl IntoLockKey) -> Mutex {
        Mutex::new(self.client.mutex(name), self.driver())
    }

    /// Returns the fair mutex of that name, which serves waiters of all processes in the order in which they came.
    pub fn fair_mutex(&self, name: impl IntoLockKey) -> FairMutex {
        FairMutex::new(self.client.fair_mutex(name), self.driver())
    }

    /// Returns the read/write lock of that name.
    pub fn rw_lock(&self, name: impl IntoLockKey) -> RwLock {
        RwLock::new(self.client.rw_lock(name), self.driver())
    }

    /// Returns the semaphore of that name, which has `limit` permits.
    pub fn semaphore(&self, name: impl IntoLockKey, limit: NonZeroU32) -> Semaphore {
        Semaphore::new(self.client.semaphore(name, limit), self.driver())
    }

    /// Returns the count-down latch of that name.
    pub fn latch(&self, name: impl IntoLockKey) -> CountDownLatch {
        CountDownLatch::new(self.client.latch(name), self.driver())
    }

    /// Returns a lock of all these mutexes, which locks all or none.
    pub fn multi_lock<N: IntoLockKey>(&self, names: impl IntoIterator<Item = N>) -> MultiLock {
        MultiLock::new(self.client.multi_lock(names), self.driver())
    }

    /// Returns the lock of that kind and name or, of several names, a lock that acquires all or none.
    pub fn any_lock<N: IntoLockKey>(
        &self,
        kind: LockKind,
        names: impl IntoIterator<Item = N>,
    ) -> AnyLock {
        AnyLock::new(self.client.any_lock(kind, names), self.driver())
    }

    /// Returns the lock of that name with the policy's options, or a lock of all these names, all or none: see
    /// [`LockClient::policy_lock`](crate::LockClient::policy_lock).
    #[cfg(feature = "policy")]
    pub fn policy_lock<N: IntoLockKey>(
        &self,
        policy: &str,
        names: impl IntoIterator<Item = N>,
    ) -> AnyLock {
        AnyLock::new(self.client.policy_lock(policy, names), self.driver())
    }

    /// Makes this the default client of the process, in place of any earlier one, async or blocking. Annotated functions
    /// use it if they neither name a client nor run inside [`scope`](Self::scope).
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::blocking::{LockClient, LockGuard};
    /// use lock_runtime::{LockError, distributed_lock};
    ///
    /// #[distributed_lock(key = "order:{id}", wait = "2s")]
    /// fn pay(id: u64) -> Result<&'static str, LockError> {
    ///     Ok("paid")
    /// }
    ///
    /// LockClient::in_memory()?.install();
    /// assert_eq!(pay(42)?, "paid");
    /// # Ok::<_, LockError>(())
    /// ```
    pub fn install(&self) {
        self.client.install();
    }

    /// Returns the client of the enclosing [`scope`](Self::scope), or the installed one outside any scope. That may be the
    /// blocking face of an async client.
    #[must_use]
    pub fn current() -> Option<Self> {
        AsyncClient::current().map(Self::from)
    }

    /// Calls `body` with this client as the default of annotated functions that it calls on this thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::blocking::LockClient;
    /// use lock_runtime::{LockError, distributed_lock};
    ///
    /// #[distributed_lock(key = "stock")]
    /// fn count() -> Result<u32, LockError> {
    ///     Ok(3)
    /// }
    ///
    /// assert_eq!(LockClient::in_memory()?.scope(count)?, 3);
    /// # Ok::<_, LockError>(())
    /// ```
    pub fn scope<T>(&self, body: impl FnOnce() -> T) -> T {
        let client = Link::client(std::sync::Arc::new(self.client.clone()));
        let _entered = scope::enter(Some(client));
        body()
    }

    /// Closes the client: see [`LockClient::shutdown`](crate::LockClient::shutdown). Call it at the end of `main`.
    ///
    /// # Errors
    ///
    /// [`LockError::InAsyncTask`] in an async task; the client is then not closed.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::blocking::LockClient;
    /// use std::time::Duration;
    ///
    /// let client = LockClient::in_memory()?;
    /// drop(client.mutex("order:42").lock()?);
    /// assert!(client.shutdown(Duration::from_secs(5))?.is_clean());
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    pub fn shutdown(&self, grace: Duration) -> Result<Shutdown, LockError> {
        self.driver().wait(async { Ok(self.client.shutdown(grace).await) })
    }

    /// Asks the store what it knows of the lock of that name: see [`LockClient::inspect`](crate::LockClient::inspect).
    ///
    /// # Errors
    ///
    /// As the async method, and [`LockError::InAsyncTask`] in an async task.
    pub fn inspect(&self, name: impl IntoLockKey) -> Result<Inspection, LockError> {
        self.driver().wait(self.client.inspect(name))
    }

    /// Takes the lock of that name from its holders: see
    /// [`LockClient::force_release`](crate::LockClient::force_release).
    ///
    /// # Errors
    ///
    /// As the async method, and [`LockError::InAsyncTask`] in an async task.
    pub fn force_release(&self, name: impl IntoLockKey) -> Result<bool, LockError> {
        self.driver().wait(self.client.force_release(name))
    }

    /// Checks that the store answers: see [`LockClient::ready`](crate::LockClient::ready).
    ///
    /// # Errors
    ///
    /// As the async method, and [`LockError::InAsyncTask`] in an async task.
    pub fn ready(&self) -> Result<(), LockError> {
        self.driver().wait(self.client.ready())
    }
}

impl From<AsyncClient> for LockClient {
    /// Returns the blocking face of an async client: the same locks, the same local queues, and re-entry between both. Its
    /// leases are renewed in the runtime that the client uses; blocking calls wait in a thread that all such clients share.
    /// That runtime has to run meanwhile: a `current_thread` one runs only during `block_on`, and without it no answer of the
    /// store arrives.
    fn from(client: AsyncClient) -> Self {
        Self { client }
    }
}
