//! [`LockClient`], where locks come from, and what it reports: its [`Health`], the holds of this process
//! ([`HeldInfo`]), its own id ([`LockClientId`]) and what a [`Shutdown`] left behind.

// `builder` makes the client, `config` gives it policies from a file, `watch` looks at holds, `id` names it.

mod builder;
#[cfg(feature = "policy")]
mod config;
mod id;
mod watch;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

pub use self::builder::LockClientBuilder;
pub(crate) use self::builder::check_setting;
pub use self::id::LockClientId;
pub use self::watch::{Health, HeldInfo};
use crate::acquire::{Engine, Handle};
use crate::any_lock::AnyLock;
use crate::error::LockError;
use crate::fair_mutex::FairMutex;
use crate::key::{IntoLockKey, LockKey};
use crate::latch::CountDownLatch;
use crate::multi_lock::MultiLock;
use crate::mutex::Mutex;
use crate::options::LockOptions;
use crate::rw_lock::RwLock;
use crate::scope::{self, Inherit, Link};
use crate::semaphore::Semaphore;
use crate::settings::LockKind;
use crate::store::memory::MemoryStore;
use crate::store::{HoldKind, Target};

/// Makes locks. A cheap handle: clones share one connection, one watchdog and one line per key.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), lock_runtime::LockError> {
/// use lock_runtime::LockClient;
/// use std::time::Duration;
///
/// let client = LockClient::connect("redis://127.0.0.1:6379").await?;
/// client.install(); // annotated functions use it from here on
/// let guard = client.mutex("order:42").lock().await?;
/// guard.release().await?;
/// client.shutdown(Duration::from_secs(5)).await; // the last line of `main`
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LockClient {
    engine: Arc<Engine>,
    settings: Arc<Settings>,
}

#[derive(Debug, Default)]
struct Settings {
    namespace: Option<String>,
    options: LockOptions,
    #[cfg(feature = "policy")]
    configured: arc_swap::ArcSwapOption<config::Configured>,
}

/// The process-wide default: see [`LockClient::install`].
static INSTALLED: parking_lot::RwLock<Option<LockClient>> = parking_lot::RwLock::new(None);

impl LockClient {
    /// A client of its own in-memory store: locks that live and end with this process.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::builder().build(Arc::new(MemoryStore::new()), Settings::default())
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

    /// A client of one Redis server that need not be there yet: for services that start before it, and
    /// for clients that are made where there is no runtime.
    ///
    /// It connects in the background, from now on or, without a runtime, from its first use on, and for as
    /// long as it takes. Until then acquires fail after
    /// [`store_patience`](LockClientBuilder::store_patience), and [`ready`](Self::ready) does, so that the
    /// service is not ready; `connect` says at once what is wrong with an address, a certificate or a
    /// password, and this logs it.
    ///
    /// # Errors
    ///
    /// [`LockError::Store`] if the address is none.
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

    /// Connects to the master that Redis Sentinel names, and follows it through fail-overs.
    ///
    /// `master` is its name or, with credentials, a database or TLS, `redis://user:password@name/2`;
    /// `nodes` are the addresses of the sentinels. See
    /// [`RedisStore::connect_sentinel`](crate::store::RedisStore::connect_sentinel) for both, and for what a
    /// fail-over does to locks.
    ///
    /// # Errors
    ///
    /// [`LockError::Store`] at once if an address or the name is wrong, no sentinel or not the master
    /// can be reached, or one of them refuses the credentials. Once connected, the client reconnects by
    /// itself, for ever.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes what was opened.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), lock_runtime::LockError> {
    /// use lock_runtime::LockClient;
    ///
    /// let sentinels = ["redis://one:26379", "redis://two:26379", "redis://three:26379"];
    /// let client = LockClient::connect_sentinel("locks", sentinels).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "redis")]
    pub async fn connect_sentinel<U: AsRef<str>>(
        master: &str,
        nodes: impl IntoIterator<Item = U>,
    ) -> Result<Self, LockError> {
        Self::builder().connect_sentinel(master, nodes).await
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
        RwLock::new(side(HoldKind::Read), side(HoldKind::Write))
    }

    /// The semaphore of that name, with `limit` permits.
    pub fn semaphore(&self, name: impl IntoLockKey, limit: NonZeroU32) -> Semaphore {
        Semaphore::new(self.handle(name, |key| Target::semaphore(key, limit)), limit)
    }

    /// The count-down latch of that name.
    pub fn latch(&self, name: impl IntoLockKey) -> CountDownLatch {
        CountDownLatch::new(self.handle(name, Target::latch))
    }

    /// The mutexes of all these names at once, all or none: see [`MultiLock`]. Cheap; an invalid name,
    /// or no name at all, is reported when it is locked.
    pub fn multi_lock<N: IntoLockKey>(&self, names: impl IntoIterator<Item = N>) -> MultiLock {
        let names = names.into_iter().map(|name| self.full_name(name.into_lock_key()?));
        MultiLock::of_names(&self.engine, names.collect(), self.options())
    }

    /// The lock of that kind with that name, or with all of these names, all or none. Cheap for one
    /// name and for mutexes; several names of another kind cost what [`MultiLock::of`] does. An invalid
    /// name, or no name at all, is reported when it is taken.
    pub fn any_lock<N: IntoLockKey>(
        &self,
        kind: LockKind,
        names: impl IntoIterator<Item = N>,
    ) -> AnyLock {
        let mut names = names.into_iter().map(IntoLockKey::into_lock_key);
        match (names.next(), names.next()) {
            (Some(name), None) => AnyLock::new(self.one(kind, name)),
            (first, second) => {
                self.any_lock_of_all(kind, first.into_iter().chain(second).chain(names))
            }
        }
    }

    /// The same for several names. Of a `Vec` of them no copy is made.
    pub(crate) fn any_lock_of_all<N: IntoLockKey>(
        &self,
        kind: LockKind,
        names: impl IntoIterator<Item = N>,
    ) -> AnyLock {
        AnyLock::new(match kind {
            LockKind::Mutex => self.multi_lock(names).into_handle(),
            _ => {
                let names = names.into_iter().map(IntoLockKey::into_lock_key);
                MultiLock::of(names.map(|name| self.one(kind, name).into())).into_handle()
            }
        })
    }

    fn one(&self, kind: LockKind, name: Result<LockKey, LockError>) -> Handle {
        match kind {
            LockKind::Mutex => self.handle(name, Target::mutex),
            LockKind::Fair => self.handle(name, Target::fair),
            LockKind::Read => self.handle(name, |key| Target::side(HoldKind::Read, key)),
            LockKind::Write => self.handle(name, |key| Target::side(HoldKind::Write, key)),
            LockKind::Semaphore(limit) => self.handle(name, |key| Target::semaphore(key, limit)),
        }
    }

    /// A way to take what `target` makes of the full name.
    fn handle(
        &self,
        name: impl IntoLockKey,
        target: impl FnOnce(LockKey) -> Arc<Target>,
    ) -> Handle {
        let target = name.into_lock_key().and_then(|key| self.full_name(key)).map(target);
        Handle::new(&self.engine, target, self.options())
    }

    fn full_name(&self, key: LockKey) -> Result<LockKey, LockError> {
        match &self.settings.namespace {
            None => key.whole(),
            Some(namespace) => key.in_namespace(namespace),
        }
    }

    /// The options that this client's locks have unless told otherwise; what a configuration has as
    /// `[lock.defaults]` is in them.
    #[must_use]
    pub fn options(&self) -> LockOptions {
        #[cfg(feature = "policy")]
        if let Some(configured) = &*self.settings.configured.load() {
            return configured.options;
        }
        self.settings.options
    }

    /// The options of the client itself, over which a policy comes with the defaults of its own
    /// configuration.
    #[cfg(feature = "policy")]
    pub(crate) fn own_options(&self) -> LockOptions {
        self.settings.options
    }

    /// Makes this the process's default client, in place of any earlier one: what annotated
    /// functions use that neither name a client nor run inside [`scope`](Self::scope).
    pub fn install(&self) {
        *INSTALLED.write() = Some(self.clone());
    }

    /// The client of the enclosing [`scope`](Self::scope), else the installed one.
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

    /// Ends the client: from now on nothing new is locked ([`LockError::Closed`]), whoever waits in
    /// line is sent away, and holds that are let go within `grace` are given back to the store
    /// before this returns.
    ///
    /// What was dropped just before counts: await this at the end of `main`, because the releases of dropped
    /// guards end with the runtime. What the store has not answered within `grace` is logged, too.
    ///
    /// Guards that are still alive afterwards stay valid until their lease ends and are not renewed
    /// any more; letting them go still frees the lock. What waits for [`grace_over`](Self::grace_over), as
    /// the response bodies of the crate `lock-tower` do, ends when the grace is over, and this returns up to
    /// 250 ms later, when their locks are given back.
    ///
    /// # Cancel safety
    ///
    /// Dropped half way, the client is closed and its guards are as described, but what was dropped
    /// may not have been given back yet.
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
        let engines = self.engine.family();
        engines.iter().for_each(|engine| engine.close());
        let settled = async {
            for engine in &engines {
                engine.settled().await;
            }
        };
        let mut settled = std::pin::pin!(settled);
        let in_time = match Instant::now().checked_add(grace) {
            Some(limit) => timeout_at(limit, settled.as_mut()).await.is_ok(),
            None => {
                settled.as_mut().await;
                true
            }
        };
        let has_listeners = self.engine.grace_over.receiver_count() > 0;
        self.engine.grace_over.send_replace(true);
        if has_listeners && !in_time {
            // What has listened gives its locks back now, which takes a round trip.
            drop(timeout(LAST_RELEASES, settled).await);
        }
        let mut report = Shutdown { still_held: 0, not_given_back: 0 };
        for engine in &engines {
            let (held, under_way) = engine.left_behind();
            report.still_held += held;
            report.not_given_back += under_way;
            engine.leases.watchdog.close();
        }
        if report.is_clean() {
            self.engine.leases.store.close();
        } else {
            let Shutdown { still_held, not_given_back } = report;
            tracing::warn!(
                still_held,
                not_given_back,
                "the lock client was shut down and the grace is over: what is still held is not \
                 renewed any more, and what is not given back may stay held until its lease ends"
            );
        }
        report
    }
}

/// How long a shutdown waits for what is given back when its grace is over.
const LAST_RELEASES: Duration = Duration::from_millis(250);

impl LockClient {
    /// Waits until the grace of a [`shutdown`](Self::shutdown) is over, for ever if there is none: for
    /// what holds a lock for long, such as a stream, to end and give the lock back while the program ends.
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
        // An error would say that the engine, and with it the grace, is gone.
        let _ = self.engine.grace_over.subscribe().wait_for(|is_over| *is_over).await;
    }
}

impl fmt::Debug for LockClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockClient")
            .field("store", &self.engine.leases.store)
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
