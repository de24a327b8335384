//! Making clients and their locks, and the end of a client: the methods in the order in which a program needs them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::{INSTALLED, LockClient, LockClientBuilder, Settings, Shutdown};
#[cfg(feature = "redis")]
use crate::error::LockError;
use crate::fair_mutex::FairMutex;
use crate::key::IntoLockKey;
use crate::latch::CountDownLatch;
use crate::multi_lock::MultiLock;
use crate::mutex::Mutex;
use crate::options::{LockKind, LockOptions};
use crate::rw_lock::RwLock;
use crate::scope::{self, Inherit, Link};
use crate::semaphore::Semaphore;
use crate::store::memory::MemoryStore;
use crate::store::{HoldKind, Target};

/// How long a shutdown waits for the releases that the end of its grace causes.
const LAST_RELEASES: Duration = Duration::from_millis(250);

/// How long a shutdown waits for servers that release after the store has confirmed the releases.
const SLOWER_SERVERS: Duration = Duration::from_secs(1);

impl LockClient {
    /// Connects to one Redis server: `redis://`, `rediss://` (feature `tls-rustls`) or `unix://`, with
    /// `user:password@`, `/database` and `?protocol` in the address.
    ///
    /// # Errors
    ///
    /// [`LockError::Store`] at once if the address is wrong, the server cannot be reached, its certificate is
    /// not trusted, or it refuses the password. Once connected, the client reconnects by itself, forever.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections that it opened.
    #[cfg(feature = "redis")]
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        Self::builder().connect(url).await
    }

    /// Creates a client of a Redis server that may not be running yet: for services that start before their
    /// server, and for clients that are created outside a runtime.
    ///
    /// The client connects in the background and retries until it succeeds. It starts now or, outside a runtime, on
    /// its first use. Until it is connected, acquires fail after
    /// [`store_patience`](LockClientBuilder::store_patience) and [`ready`](Self::ready) fails, so that the
    /// service is not ready. `connect` returns an error at once if the address, the certificate or the password is
    /// wrong; this client logs it.
    ///
    /// # Errors
    ///
    /// [`LockError::Store`] if `url` is not a valid address.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::LockClient;
    ///
    /// let client = LockClient::connect_lazy("redis://127.0.0.1:6379")?;
    /// client.install();
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    #[cfg(feature = "redis")]
    pub fn connect_lazy(url: &str) -> Result<Self, LockError> {
        Self::builder().connect_lazy(url)
    }

    /// Starts a client whose settings differ from the defaults.
    pub fn builder() -> LockClientBuilder {
        LockClientBuilder::default()
    }

    /// Creates a client of a new in-memory store, whose locks exist in this process only.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::builder().build(Arc::new(MemoryStore::new()), Settings::default())
    }

    /// Makes this the default client of the process, in place of any earlier one. Annotated functions use it if
    /// they neither name a client nor run inside [`scope`](Self::scope).
    pub fn install(&self) {
        let replaced = INSTALLED.write().replace(self.clone());
        // After the unlock: the store of the replaced client may look up the installed one when it is dropped.
        drop(replaced);
    }

    /// Returns the mutex of that name. Cheap; locking it fails if the name is invalid.
    pub fn mutex(&self, name: impl IntoLockKey) -> Mutex {
        Mutex::new(self.handle(name, Target::mutex))
    }

    /// Returns the fair mutex of that name, which serves waiters of all processes in the order in which they came.
    pub fn fair_mutex(&self, name: impl IntoLockKey) -> FairMutex {
        FairMutex::new(self.handle(name, Target::fair))
    }

    /// Returns the read/write lock of that name.
    pub fn rw_lock(&self, name: impl IntoLockKey) -> RwLock {
        let name = name.into_lock_key();
        let side = |kind| self.handle(name.clone(), |key| Target::side(kind, key));
        RwLock::new(side(HoldKind::Read), side(HoldKind::Write))
    }

    /// Returns the semaphore of that name, which has `limit` permits: at least one, or every acquire fails with
    /// [`InvalidOptions`](crate::LockError::InvalidOptions).
    pub fn semaphore(&self, name: impl IntoLockKey, limit: u32) -> Semaphore {
        Semaphore::new(
            self.one(LockKind::Semaphore(limit), name.into_lock_key(), self.shared_options()),
            limit,
        )
    }

    /// Returns the count-down latch of that name.
    pub fn latch(&self, name: impl IntoLockKey) -> CountDownLatch {
        CountDownLatch::new(self.handle(name, Target::latch))
    }

    /// Returns a lock of all these mutexes, which locks all or none: see [`MultiLock`]. Cheap; locking it fails
    /// if a name is invalid or there is none.
    pub fn multi_lock<N: IntoLockKey>(&self, names: impl IntoIterator<Item = N>) -> MultiLock {
        let names = names.into_iter().map(|name| self.full_name(name.into_lock_key()?));
        MultiLock::of_names(&self.engine, names.collect(), self.shared_options())
    }

    /// Closes the client. New acquires and waiters fail with [`Closed`](crate::LockError::Closed), and locks that
    /// are released within `grace` are released in the store before this returns.
    ///
    /// That includes guards that were dropped before: await this at the end of `main`, because the releases of
    /// dropped guards end with the runtime. Releases that the store has not confirmed within `grace` are logged. A
    /// quorum confirms a release once a majority has; within `grace`, this waits up to a second more for the others.
    ///
    /// Guards that are still alive afterwards stay valid until their lease ends, and are not renewed; dropping one
    /// still releases its lock. Tasks that wait for [`grace_over`](Self::grace_over), as the response bodies of the
    /// crate `lock-tower` do, end when the grace is over, and this returns up to 250 ms later, when their locks are
    /// released.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the client is closed and its guards are as described, but locks may not have been
    /// released in the store yet.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use lock_runtime::LockClient;
    /// use std::time::Duration;
    ///
    /// let client = LockClient::in_memory();
    /// drop(client.mutex("order:42").lock().await?);
    /// assert!(client.shutdown(Duration::from_secs(5)).await.is_clean());
    /// # Ok::<_, lock_runtime::LockError>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub async fn shutdown(&self, grace: Duration) -> Shutdown {
        self.engine.close();
        let mut settled = std::pin::pin!(self.engine.settled());
        let limit = Instant::now().checked_add(grace);
        let in_time = match limit {
            Some(limit) => timeout_at(limit, settled.as_mut()).await.is_ok(),
            None => {
                settled.as_mut().await;
                true
            }
        };
        let has_listeners = self.engine.grace_over.receiver_count() > 0;
        self.engine.grace_over.send_replace(true);
        if has_listeners && !in_time {
            // Tasks that waited for the end of the grace release their locks now, which takes a round trip.
            drop(timeout(LAST_RELEASES, settled).await);
        }
        // The process may end next, and with it what is under way.
        // S-19, S-29.
        let left = limit.map_or(SLOWER_SERVERS, |limit| limit.duration_since(Instant::now()));
        let leases = &self.engine.leases;
        drop(leases.store.settled(left.min(SLOWER_SERVERS)).await);
        let (still_held, not_given_back) = self.engine.left_behind();
        let report = Shutdown { still_held, not_given_back };
        leases.watchdog.close();
        if report.is_clean() {
            self.engine.leases.store.close();
        } else {
            let Shutdown { still_held, not_given_back } = report;
            tracing::warn!(
                still_held,
                not_given_back,
                "the lock client was shut down and the grace is over: locks that are still held are not \
                 renewed any more, and locks whose release is not confirmed may stay held until \
                 their leases end"
            );
        }
        report
    }

    /// Waits until the grace of a [`shutdown`](Self::shutdown) is over, forever if there is none. A task that
    /// holds a lock for long, such as a stream, can then end and release it before the program ends.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use lock_runtime::LockClient;
    /// use std::time::Duration;
    ///
    /// let client = LockClient::in_memory();
    /// let (guard, ends) = (client.mutex("feed").lock().await?, client.clone());
    /// let feed = tokio::spawn(async move {
    ///     ends.grace_over().await;
    ///     guard.release().await
    /// });
    /// # tokio::task::yield_now().await;
    /// assert!(client.shutdown(Duration::from_millis(10)).await.is_clean());
    /// feed.await??;
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub async fn grace_over(&self) {
        // An error would mean that the engine, and with it the grace, is gone.
        let _ = self.engine.grace_over.subscribe().wait_for(|is_over| *is_over).await;
    }

    /// Returns the client of the enclosing [`scope`](Self::scope), or the installed one outside any scope.
    #[must_use]
    pub fn current() -> Option<Self> {
        if let Some(client) = scope::enclosing_client::<Self>() {
            return Some((*client).clone());
        }
        INSTALLED.read().clone()
    }

    /// Runs `future` with this client as the default of annotated functions inside it.
    ///
    /// # Cancel safety
    ///
    /// As cancel safe as `future`.
    pub fn scope<F: Future>(&self, future: F) -> Inherit<F> {
        scope::within(Link::client(Arc::new(self.clone())), future)
    }

    /// Returns the default options of this client's locks, `[lock.defaults]` of its configuration included.
    pub fn options(&self) -> LockOptions {
        LockOptions::clone(&self.shared_options())
    }

    /// Returns [`options`](Self::options) as all handles share them: the same until a reload.
    pub(crate) fn shared_options(&self) -> Arc<LockOptions> {
        #[cfg(feature = "policy")]
        if let Some(configured) = &*self.settings.configured.load() {
            return Arc::clone(&configured.options);
        }
        Arc::clone(&self.settings.options)
    }

    /// Returns the default options without those of the configuration: a policy brings the defaults of its own
    /// configuration, which a reload may have replaced.
    #[cfg(feature = "policy")]
    pub(crate) fn own_options(&self) -> Arc<LockOptions> {
        Arc::clone(&self.settings.options)
    }
}
