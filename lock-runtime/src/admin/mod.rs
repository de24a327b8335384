//! [`Admin`]: what operators ask, and the types of the answers. Programs acquire and release locks without it.
//!
//! The command-line tool `lockctl` and the page of the crate `lock-console` show the same.

#[cfg(feature = "lock-order")]
pub(crate) mod order;
#[cfg(not(feature = "lock-order"))]
#[path = "order/off.rs"]
pub(crate) mod order;
#[cfg(any(feature = "lock-order", feature = "survey"))]
mod shortest;
#[cfg(feature = "survey")]
pub(crate) mod survey;
pub(crate) mod waits;

use std::time::Duration;

use tokio::task::coop::consume_budget;
use tokio::time::Instant;

#[cfg(feature = "lock-order")]
pub use self::order::{Inversion, LockOrder, MAX_EDGES, OrderEdge};
#[cfg(feature = "survey")]
pub use self::survey::{
    Deadlock, Edge, Survey, SurveyedClient, SurveyedHolder, SurveyedLock, SurveyedPlace,
    SurveyedProcess, SurveyedWaiter, Surveying,
};
use self::waits::WaitEntry;
use crate::acquire::Engine;
use crate::client::LockClient;
use crate::error::LockError;
use crate::fence::FencingToken;
use crate::key::{IntoLockKey, LockKey};
use crate::lease::Hold;
use crate::lease::manager::LeaseManager;
use crate::store::Target;
pub use crate::store::{
    HoldKind, Inspection, MissingRight, ServerFacts, ServerReport, StoredHold, StoredWaiter,
};

/// The operator's side of a client: inspects locks, releases them by force, and reports on servers and processes.
///
/// Made by [`LockClient::admin`].
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let client = lock_runtime::LockClient::in_memory();
/// let guard = client.mutex("order:42").lock().await?;
///
/// let admin = client.admin();
/// let found = admin.inspect("order:42").await?;
/// println!("held for {:?} more unless renewed", found.remaining);
/// assert_eq!(admin.held().len(), 1);
/// # drop(guard);
/// # Ok::<_, lock_runtime::LockError>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Admin {
    client: LockClient,
}

impl Admin {
    pub(crate) fn new(client: LockClient) -> Self {
        Self { client }
    }

    /// Returns the store's state of a name: as what kind it is held, by which clients, for how long.
    ///
    /// The answer may be outdated when it arrives: show it to people and on dashboards, but do not base
    /// decisions on it.
    ///
    /// # Errors
    ///
    /// [`LockError::KeyCollision`] if the name holds other data than a lock, [`LockError::InvalidKey`] if it is
    /// not a valid name, [`LockError::Store`] if the store fails.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: lock_runtime::LockClient) -> Result<(), lock_runtime::LockError> {
    /// let found = client.admin().inspect("order:42").await?;
    /// if let (Some(kind), Some(left)) = (found.kind, found.remaining) {
    ///     println!("held as a {kind} for {left:?} more unless renewed");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn inspect(&self, name: impl IntoLockKey) -> Result<Inspection, LockError> {
        let leases = self.leases()?;
        consume_budget().await;
        let key = self.client.key(name)?;
        let timeout = leases.timing.command_timeout;
        leases.store.inspect(&key, timeout).await.map_err(|error| error.about(&key, None))
    }

    /// Releases a lock of any client in any process, and wakes its waiters. Returns `false` if it was not held.
    ///
    /// For an operator: **the holder is not asked and goes on** until its next renewal, up to a third of its
    /// lease later, or with a fixed lease until that ends. Only then is its guard lost, and the next holder may
    /// be running by then; fencing tokens, which keep growing, order the two. A lost holder does not touch the
    /// lock of the next one. Queues of waiters stay. A count-down latch is not a lock and is left alone.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect). After
    /// [`StoreErrorKind::OutcomeUnknown`](crate::error::StoreErrorKind::OutcomeUnknown) the lock may be free.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it may or may not take effect.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: lock_runtime::LockClient) -> Result<(), lock_runtime::LockError> {
    /// if client.admin().force_release("report:nightly").await? {
    ///     eprintln!("freed; check what its holder was doing");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn force_release(&self, name: impl IntoLockKey) -> Result<bool, LockError> {
        self.release_by_force(name.into_lock_key()?, &[]).await
    }

    /// As [`force_release`](Self::force_release), if it is held by these clients alone: the id of each holder's client
    /// begins with one of them, in the moment of the release. Otherwise, or without any, `false`.
    ///
    /// For `lockctl release --owner`: between its look at the lock and its release, another client may acquire the lock.
    ///
    /// # Errors
    ///
    /// As [`force_release`](Self::force_release).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it may or may not take effect.
    pub async fn force_release_from(
        &self,
        name: impl IntoLockKey,
        clients: &[String],
    ) -> Result<bool, LockError> {
        let key = name.into_lock_key()?;
        // The id of no client is the beginning of all.
        if clients.is_empty() || clients.iter().any(String::is_empty) {
            return Ok(false);
        }
        self.release_by_force(key, clients).await
    }

    fn leases(&self) -> Result<&LeaseManager, LockError> {
        let leases = &self.client.engine.leases;
        leases.check_caller()?;
        Ok(leases)
    }

    async fn release_by_force(&self, name: LockKey, clients: &[String]) -> Result<bool, LockError> {
        let leases = self.leases()?;
        consume_budget().await;
        let key = self.client.key(name)?;
        let timeout = leases.timing.command_timeout;
        let freed = match clients {
            [] => leases.store.force_release(&key, timeout).await,
            _ => leases.store.force_release_from(&key, clients, timeout).await,
        };
        let freed = freed.map_err(|error| error.about(&key, None))?;
        if freed {
            tracing::warn!(lock.name = ?key, "lock released by force");
        }
        Ok(freed)
    }

    /// Returns what each server of the store reports of itself: version, eviction, persistence, replicas, clock. Empty for
    /// an in-memory store; in a cluster, one report for each master.
    ///
    /// For operators: `lockctl doctor` judges the answers. A server that does not answer has its error in its report.
    ///
    /// # Errors
    ///
    /// [`LockError::NoRuntime`] outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example(client: lock_runtime::LockClient) -> Result<(), lock_runtime::LockError> {
    /// for server in client.admin().servers().await? {
    ///     let policy = server.answer.map(|facts| facts.info.get("maxmemory_policy").cloned());
    ///     println!("{}: {policy:?}", server.address);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn servers(&self) -> Result<Vec<ServerReport<ServerFacts>>, LockError> {
        let leases = self.leases()?;
        Ok(leases.store.servers(leases.timing.command_timeout).await?)
    }

    /// Tries each right of Redis' ACL that locks need, and returns those that the user lacks on each server. Empty for an
    /// in-memory store; in a cluster, one entry for each master.
    ///
    /// For operators, as [`servers`](Self::servers): it sends about fifty commands, some of which the server answers with
    /// an error. None of them changes a key. A server that does not answer has its error in its entry.
    ///
    /// # Errors
    ///
    /// [`LockError::NoRuntime`] outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example(client: lock_runtime::LockClient) -> Result<(), lock_runtime::LockError> {
    /// for server in client.admin().missing_rights().await? {
    ///     for missing in server.answer.into_iter().flatten() {
    ///         println!("{}: {} is needed for {}", server.address, missing.right, missing.needed_for);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn missing_rights(&self) -> Result<Vec<ServerReport<Vec<MissingRight>>>, LockError> {
        let leases = self.leases()?;
        Ok(leases.store.missing_rights(leases.timing.command_timeout).await?)
    }

    /// Returns the current holds of this client, in no order. Several guards on one hold, nested or of readers
    /// that share it, are one entry. Sends nothing; checks every hold.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let client = lock_runtime::LockClient::in_memory();
    /// let guard = client.mutex("order:42").lock().await?;
    /// let held = client.admin().held();
    /// assert_eq!(held[0].key.as_str(), "order:42");
    /// assert_eq!(held[0].token, guard.token());
    /// # Ok::<_, lock_runtime::LockError>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn held(&self) -> Vec<HeldInfo> {
        let holds = self.client.engine.leases.watchdog.all();
        holds.iter().filter_map(|hold| HeldInfo::of(hold)).collect()
    }

    /// Returns the acquires of this client that wait, in no order: those in a queue of this process, and those that the
    /// store has refused. Sends nothing; looks at every queue.
    ///
    /// A wait for several locks at once is one entry for each of them.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let client = lock_runtime::LockClient::in_memory();
    /// let guard = client.mutex("order:42").lock().await?;
    /// let waiter = client.mutex("order:42");
    /// let waiting = tokio::spawn(async move { waiter.lock().await });
    /// tokio::task::yield_now().await;
    ///
    /// let waits = client.admin().waiting();
    /// assert_eq!(waits[0].key.as_str(), "order:42");
    /// println!("{:?} at {:?}", waits[0].waited_for, waits[0].site);
    /// # drop(guard);
    /// # waiting.await??;
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn waiting(&self) -> Vec<WaitInfo> {
        let (now, mut waits) = (Instant::now(), Vec::new());
        let mut note = |wait: &WaitEntry| waits.extend(WaitInfo::of(wait, now));
        visit_waits(&self.client.engine, &mut note);
        waits
    }

    /// Asks all processes that use the same store who holds which lock and who waits: see [`Survey`]. Await
    /// it, after perhaps setting what it looks at.
    ///
    /// It never changes a lock. With an in-memory store it asks the clients of this process that share it.
    ///
    /// # Errors
    ///
    /// [`LockError::Store`] if the store fails, or refuses this client the survey's channels.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use lock_runtime::LockClient;
    ///
    /// let client = LockClient::builder().service("billing").in_memory()?;
    /// let guard = client.mutex("order:42").lock().await?;
    ///
    /// let survey = client.admin().survey().prefix("order:").await?;
    /// let lock = &survey.locks[0];
    /// let holder = &lock.holders[0];
    /// println!("{} is held by {} at {:?}", lock.key, holder.client.as_ref().unwrap(), holder.site);
    /// assert_eq!(holder.client.as_ref().unwrap().service, "billing");
    /// # Ok::<_, lock_runtime::LockError>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "survey")]
    pub fn survey(&self) -> Surveying {
        let client = &self.client;
        Surveying::new(&client.engine, client.namespace(), client.known_names())
    }

    /// Returns which locks were acquired inside of which, and the contradictions among them: see [`LockOrder`].
    /// These are the locks of all clients of this process that
    /// [record them](crate::LockClientBuilder::lock_order).
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let client = lock_runtime::LockClient::builder().lock_order(true).in_memory()?;
    /// let (order, stock) = (client.mutex("order:42"), client.mutex("stock:7"));
    /// order.run(async { stock.run(async {}).await }).await??;
    ///
    /// let found = client.admin().lock_order();
    /// assert_eq!((found.edges[0].outer.as_str(), found.edges[0].inner.as_str()), ("order", "stock"));
    /// assert!(found.inversions.is_empty());
    /// # Ok::<_, lock_runtime::LockError>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "lock-order")]
    #[must_use]
    pub fn lock_order(&self) -> LockOrder {
        LockOrder::recorded()
    }

    /// Checks every annotated function of the program against the configuration in effect: call it when the
    /// program starts, before there is traffic.
    ///
    /// # Errors
    ///
    /// [`ConfigError`](crate::policy::ConfigError) with every function that names a policy which the
    /// configuration does not have, or whose literals contradict its policy, as [`LockConfig::check_sites`](crate::policy::LockConfig::check_sites) finds
    /// them in [`sites`](crate::site::sites). A client without a configuration is checked against an empty one.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::policy::LockConfig;
    /// use lock_runtime::{LockClient, LockError, distributed_lock};
    ///
    /// #[distributed_lock(key = "cart:{id}", policy = "checkout")]
    /// async fn check_out(id: u64) -> Result<(), LockError> {
    ///     Ok(())
    /// }
    ///
    /// fn start(config: &str) -> Result<LockClient, Box<dyn std::error::Error>> {
    ///     let config = LockConfig::from_toml(config)?;
    ///     let client = LockClient::builder().config(config).in_memory()?;
    ///     client.admin().check_sites()?;
    ///     Ok(client)
    /// }
    ///
    /// assert!(start("[lock.policies.checkout]\nwait = '2s'").is_ok());
    /// let error = start("[lock.policies.chekout]\nwait = '2s'").unwrap_err();
    /// assert!(error.to_string().contains("no lock policy \"checkout\""));
    /// ```
    #[cfg(all(feature = "sites", feature = "policy"))]
    pub fn check_sites(&self) -> Result<(), crate::policy::ConfigError> {
        self.client.config().unwrap_or_default().check_sites(crate::site::sites())
    }
}

/// Calls `visit` with each wait of a client: in a queue of this process, or for the store. It must not wait or drop a hold.
pub(crate) fn visit_waits(engine: &Engine, visit: &mut dyn FnMut(&WaitEntry)) {
    engine.queues.visit_waits(visit);
    engine.waits.visit(visit);
}

/// One hold of this client: see [`Admin::held`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldInfo {
    /// The lock's full name.
    pub key: LockKey,
    /// The kind of the lock.
    pub kind: HoldKind,
    /// The fencing token of its current guard.
    pub token: FencingToken,
    /// How long it stays valid without another renewal.
    pub remaining: Duration,
    /// How long ago it was acquired from the store, hand-offs inside this process included.
    pub held_for: Duration,
    /// Where the program acquired it: a line, or an annotated function and its line.
    pub site: Option<String>,
    /// The policy that it follows.
    pub policy: Option<String>,
}

impl HeldInfo {
    /// Returns `None` if it is lost or released.
    pub(crate) fn of(hold: &Hold) -> Option<Self> {
        let now = hold.check().ok().filter(|_| !hold.is_released())?;
        let label = hold.recorder.label();
        Some(Self {
            key: hold.target.key().clone(),
            kind: hold.target.kind(),
            token: hold.token(),
            remaining: hold.deadline().since(now),
            held_for: now.since(hold.taken_at),
            site: label.call_site().map(|site| site.to_string()),
            policy: label.policy().map(str::to_owned),
        })
    }
}

/// One acquire that waits: see [`Admin::waiting`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitInfo {
    /// The lock's full name.
    pub key: LockKey,
    /// The kind of the lock.
    pub kind: HoldKind,
    /// How long it has waited.
    pub waited_for: Duration,
    /// Where the program waits: a line, or an annotated function and its line.
    pub site: Option<String>,
    /// How many tasks of this client are served before it; `None` if it asks the store, for itself or for all of them.
    pub place: Option<usize>,
    /// The locks that are held around it, the innermost first: they stay held until it ends.
    pub inside: Vec<LockKey>,
}

impl WaitInfo {
    /// One entry for each lock that it waits for.
    fn of(wait: &WaitEntry, now: Instant) -> Vec<Self> {
        let WaitEntry { target, since, asker, place } = wait;
        let mut inside = Vec::new();
        if let Some(around) = &asker.around {
            around.visit(&mut |lock, _| inside.extend(lock.locks().map(|one| one.key().clone())));
        }
        let of = |lock: &Target| Self {
            key: lock.key().clone(),
            kind: lock.kind(),
            waited_for: now.saturating_duration_since(*since),
            site: asker.site.map(|site| site.to_string()),
            place: *place,
            inside: inside.clone(),
        };
        target.locks().map(of).collect()
    }
}
