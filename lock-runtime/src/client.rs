//! [`LockClient`]: where locks come from.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::{self, Arc, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::acquire::{Engine, Handle};
use crate::clock::Clock;
use crate::error::LockError;
use crate::fair_mutex::FairMutex;
use crate::key::{IntoLockKey, LockKey};
use crate::lease::keeper::Timing;
use crate::multi_lock::MultiLock;
use crate::mutex::Mutex;
use crate::options::LockOptions;
use crate::rw_lock::RwLock;
use crate::scope::{self, Inherit, Link};
use crate::semaphore::Semaphore;
use crate::store::memory::MemoryStore;
#[cfg(feature = "redis")]
use crate::store::redis::RedisStore;
#[cfg(feature = "tls-rustls")]
use crate::store::redis::TlsOptions;
use crate::store::{LockKind, Store, Target};

/// Makes locks. A cheap handle: clones share one connection, one watchdog and one line per key.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), lock_runtime::LockError> {
/// use lock_runtime::LockClient;
///
/// let client = LockClient::connect("redis://127.0.0.1:6379").await?;
/// client.install(); // annotated functions use it from here on
/// let guard = client.mutex("order:42").lock().await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LockClient {
    engine: Arc<Engine>,
    settings: Arc<Settings>,
}

#[derive(Debug)]
struct Settings {
    namespace: Option<String>,
    options: LockOptions,
}

/// The process-wide default: see [`LockClient::install`].
static INSTALLED: sync::RwLock<Option<LockClient>> = sync::RwLock::new(None);

impl LockClient {
    /// A client of its own in-memory store: locks that live and end with this process.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::builder().build(Arc::new(MemoryStore::new()), LockOptions::default())
    }

    /// Connects to one Redis server: `redis://`, `rediss://` (feature `tls-rustls`) or `unix://`,
    /// with `user:password@`, `/database` and `?protocol` as the address says.
    ///
    /// # Errors
    ///
    /// [`LockError::Store`] at once if the address is wrong, the server cannot be reached, its
    /// certificate is not trusted, or it refuses the password. Once connected, the client reconnects
    /// by itself, for ever.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes what was opened.
    #[cfg(feature = "redis")]
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        Self::builder().connect(url).await
    }

    /// Starts a client with settings of its own.
    pub fn builder() -> LockClientBuilder {
        LockClientBuilder::default()
    }

    /// The mutex of that name. Cheap; an invalid name is reported when it is locked.
    pub fn mutex(&self, name: impl IntoLockKey) -> Mutex {
        Mutex::new(self.handle(name, Target::mutex))
    }

    /// The fair mutex of that name: first come, first served across all processes.
    pub fn fair_mutex(&self, name: impl IntoLockKey) -> FairMutex {
        FairMutex::new(self.handle(name, Target::fair))
    }

    /// The read/write lock of that name.
    pub fn rw_lock(&self, name: impl IntoLockKey) -> RwLock {
        let name = name.into_lock_key();
        let side = |kind| self.handle(name.clone(), |key| Target::side(kind, key));
        RwLock::new(side(LockKind::Read), side(LockKind::Write))
    }

    /// The semaphore of that name, with `limit` permits.
    pub fn semaphore(&self, name: impl IntoLockKey, limit: NonZeroU32) -> Semaphore {
        Semaphore::new(self.handle(name, |key| Target::semaphore(key, limit)), limit)
    }

    /// The mutexes of all these names at once, all or none: see [`MultiLock`]. Cheap; an invalid name,
    /// or no name at all, is reported when it is locked.
    pub fn multi_lock<N: IntoLockKey>(&self, names: impl IntoIterator<Item = N>) -> MultiLock {
        let names = names.into_iter().map(|name| self.full_name(name.into_lock_key()?));
        MultiLock::of_names(&self.engine, names.collect(), self.settings.options)
    }

    /// A way to take what `target` makes of the full name.
    fn handle(
        &self,
        name: impl IntoLockKey,
        target: impl FnOnce(LockKey) -> Arc<Target>,
    ) -> Handle {
        let target = name.into_lock_key().and_then(|key| self.full_name(key)).map(target);
        Handle::new(Arc::clone(&self.engine), target, self.settings.options)
    }

    fn full_name(&self, key: LockKey) -> Result<LockKey, LockError> {
        match &self.settings.namespace {
            None => Ok(key),
            Some(namespace) => key.in_namespace(namespace),
        }
    }

    /// The options that this client's locks have unless told otherwise.
    #[must_use]
    pub fn options(&self) -> LockOptions {
        self.settings.options
    }

    /// Makes this the process's default client, in place of any earlier one: what annotated
    /// functions use that neither name a client nor run inside [`scope`](Self::scope).
    pub fn install(&self) {
        *INSTALLED.write().unwrap_or_else(PoisonError::into_inner) = Some(self.clone());
    }

    /// The client of the enclosing [`scope`](Self::scope), else the installed one.
    #[must_use]
    pub fn current() -> Option<Self> {
        if let Some(client) = scope::enclosing_client::<Self>() {
            return Some((*client).clone());
        }
        INSTALLED.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs `future` with this client as the default of annotated functions inside it.
    ///
    /// # Cancel safety
    ///
    /// As cancel safe as `future`.
    pub fn scope<F: Future>(&self, future: F) -> Inherit<F> {
        scope::within(Link::client(Arc::new(self.clone())), future)
    }

    /// Ends the client: from now on nothing new is locked ([`LockError::Closed`]), whoever waits in
    /// line is sent away, and holds that are let go within `grace` are given back to the store
    /// before this returns.
    ///
    /// Guards that are still alive afterwards stay valid until their lease ends and are not renewed
    /// any more; letting them go still frees the lock.
    ///
    /// # Cancel safety
    ///
    /// Dropped half way, the client is closed and its guards are as described, but what was dropped
    /// may not have been given back yet.
    pub async fn shutdown(&self, grace: Duration) -> Shutdown {
        self.engine.close();
        let engines = self.engine.family();
        engines.iter().for_each(|engine| engine.close());
        let settled = async {
            for engine in &engines {
                engine.settled().await;
            }
        };
        match Instant::now().checked_add(grace) {
            Some(limit) => drop(timeout_at(limit, settled).await),
            None => settled.await,
        }
        let mut report = Shutdown { still_held: 0, not_given_back: 0 };
        for engine in &engines {
            let (held, under_way) = engine.left_behind();
            report.still_held += held;
            report.not_given_back += under_way;
            engine.keeper.watchdog.close();
        }
        if report.is_clean() {
            self.engine.keeper.store.close();
        }
        report
    }
}

impl fmt::Debug for LockClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockClient")
            .field("store", &self.engine.keeper.store)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// What a [`shutdown`](LockClient::shutdown) left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shutdown {
    /// Holds whose guards were still alive.
    pub still_held: usize,
    /// Holds that were let go, or requests that were cut short, whose end the store has not
    /// confirmed; they end with their lease at the latest.
    pub not_given_back: usize,
}

impl Shutdown {
    /// True if nothing was left behind.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.still_held == 0 && self.not_given_back == 0
    }
}

/// Shortest duration that a client's settings may have: less would hammer the store.
const SHORTEST_SETTING: Duration = Duration::from_millis(5);

/// Longest duration that a client's settings may have: more is a mistake.
const LONGEST_SETTING: Duration = Duration::from_secs(60 * 60 * 24);

/// Refuses a duration that no setting may have.
pub(crate) fn check_setting(name: &str, duration: Duration) -> Result<(), LockError> {
    if (SHORTEST_SETTING..=LONGEST_SETTING).contains(&duration) {
        return Ok(());
    }
    Err(LockError::InvalidOptions(format!(
        "{name} is {duration:?}; give between {SHORTEST_SETTING:?} and {LONGEST_SETTING:?}"
    )))
}

/// Builds a [`LockClient`].
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), lock_runtime::LockError> {
/// use lock_runtime::LockClient;
/// use std::time::Duration;
///
/// let client = LockClient::builder()
///     .namespace("shop")
///     .store_patience(Duration::from_secs(2))
///     .connect("redis://:secret@redis.internal/2")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it makes a client"]
pub struct LockClientBuilder {
    namespace: Option<String>,
    options: LockOptions,
    clock: Option<Clock>,
    timing: Timing,
    max_waiters: usize,
    #[cfg(feature = "tls-rustls")]
    tls: Option<TlsOptions>,
}

impl Default for LockClientBuilder {
    fn default() -> Self {
        Self {
            namespace: None,
            options: LockOptions::default(),
            clock: None,
            timing: Timing {
                command_timeout: Duration::from_secs(1),
                store_patience: Duration::from_secs(5),
                poll_cap: Duration::from_secs(5),
                handoff_window: Duration::from_millis(5),
                waiter_lease: Duration::from_secs(5),
            },
            max_waiters: 131_072,
            #[cfg(feature = "tls-rustls")]
            tls: None,
        }
    }
}

impl LockClientBuilder {
    /// Put in front of every name: `shop` makes `order:42` the lock `shop:order:42` (S-2).
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// The options of this client's locks unless told otherwise.
    pub fn options(mut self, options: LockOptions) -> Self {
        self.options = options;
        self
    }

    /// How long one command may take before its outcome counts as unknown. Longer rides out slow
    /// networks, shorter notices a dead connection sooner. Default: 1 s.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.timing.command_timeout = timeout;
        self
    }

    /// How long an acquire puts up with a store that cannot be reached, even one that would wait
    /// for ever. Longer rides out fail-overs, shorter fails requests sooner. Default: 5 s.
    pub fn store_patience(mut self, patience: Duration) -> Self {
        self.timing.store_patience = patience;
        self
    }

    /// The longest sleep of a waiter between two attempts, jittered by a fifth. It bounds what a
    /// lost notice costs (S-15); shorter asks the store more often. Default: 5 s.
    pub fn poll_cap(mut self, cap: Duration) -> Self {
        self.timing.poll_cap = cap;
        self
    }

    /// How long the store keeps the place of a waiter who gives no sign of life: in the queue of a
    /// fair lock, among announced writers (S-26, S-27). Refreshed at a third. It is how long dead
    /// waiters hold up a line, all together. Default: 5 s.
    pub fn waiter_lease(mut self, lease: Duration) -> Self {
        self.timing.waiter_lease = lease;
        self
    }

    /// How long tasks of this process may pass a hold among themselves before other processes get a
    /// chance (S-14). Longer is faster here and slower elsewhere; zero ends hand-off. Default: 5 ms.
    pub fn handoff_window(mut self, window: Duration) -> Self {
        self.timing.handoff_window = window;
        self
    }

    /// How many tasks may wait for locks in this client before others get
    /// [`LockError::Busy`] (S-18). Default: 131 072.
    pub fn max_waiters(mut self, max_waiters: usize) -> Self {
        self.max_waiters = max_waiters;
        self
    }

    /// The clock that leases are measured on, in place of the store's; for tests (S-11).
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// What [`connect`](Self::connect) trusts and shows; it then takes `rediss://` addresses only.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use lock_runtime::{LockClient, TlsOptions};
    ///
    /// let tls = TlsOptions::new().root_certificate(std::fs::read("ca.pem")?);
    /// let client = LockClient::builder().tls(tls).connect("rediss://redis.internal:6380").await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls-rustls")]
    pub fn tls(mut self, tls: TlsOptions) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Connects to one Redis server: see [`LockClient::connect`].
    ///
    /// # Errors
    ///
    /// As [`LockClient::connect`], and [`LockError::InvalidOptions`] or [`LockError::InvalidKey`] if
    /// a setting is wrong.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes what was opened.
    #[cfg(feature = "redis")]
    pub async fn connect(self, url: &str) -> Result<LockClient, LockError> {
        self.check()?;
        #[cfg(feature = "tls-rustls")]
        if let Some(tls) = &self.tls {
            let store = RedisStore::connect_with_tls(url, tls).await?;
            return self.store(store);
        }
        let store = RedisStore::connect(url).await?;
        self.store(store)
    }

    /// A client of its own in-memory store.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOptions`] or [`LockError::InvalidKey`] if a setting is wrong.
    pub fn in_memory(self) -> Result<LockClient, LockError> {
        self.store(MemoryStore::new())
    }

    /// A client of this store.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOptions`] or [`LockError::InvalidKey`] if a setting is wrong.
    pub fn store(self, store: impl Store) -> Result<LockClient, LockError> {
        self.check()?;
        let options = self.options;
        Ok(self.build(Arc::new(store), options))
    }

    pub(crate) fn check(&self) -> Result<(), LockError> {
        if let Some(namespace) = &self.namespace {
            LockKey::new(namespace)?;
        }
        let Timing { command_timeout, store_patience, poll_cap, waiter_lease, .. } = self.timing;
        let durations = [
            ("waiter_lease", waiter_lease),
            ("command_timeout", command_timeout),
            ("store_patience", store_patience),
            ("poll_cap", poll_cap),
        ];
        durations.into_iter().try_for_each(|(name, duration)| check_setting(name, duration))
    }

    fn build(self, store: Arc<dyn Store>, options: LockOptions) -> LockClient {
        let clock = self.clock.unwrap_or_else(|| store.clock());
        let engine = Engine::new(store, clock, self.timing, self.max_waiters);
        let settings = Settings { namespace: self.namespace, options };
        LockClient { engine: Arc::new(engine), settings: Arc::new(settings) }
    }
}
