//! [`LockClientBuilder`], which builds clients whose settings differ from the defaults.

use std::sync::Arc;
use std::time::Duration;

use super::{LockClient, Settings};
use crate::acquire::Engine;
use crate::admin::order::ClientOrder;
#[cfg(feature = "survey")]
use crate::admin::survey::Presence;
use crate::clock::Clock;
use crate::error::LockError;
use crate::key::LockKey;
use crate::lease::manager::Timing;
use crate::options::{DEFAULT_TOKEN_TTL, LockOptions, SETTINGS, TOKEN_TTL};
use crate::store::Store;
#[cfg(feature = "tls-rustls")]
use crate::store::redis::TlsOptions;

/// Refuses a duration outside of the bounds of settings.
pub(crate) fn check_setting(name: &str, duration: Duration) -> Result<(), LockError> {
    if SETTINGS.contains(&duration) {
        return Ok(());
    }
    Err(LockError::InvalidOptions(format!(
        "{name} is {duration:?}; give between {:?} and {:?}",
        SETTINGS.start(),
        SETTINGS.end()
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
    pub(super) namespace: Option<String>,
    pub(super) options: LockOptions,
    clock: Option<Clock>,
    timing: Timing,
    max_waiters: usize,
    pub(super) server_timeout: Duration,
    #[cfg(feature = "survey")]
    pub(super) service: Option<String>,
    #[cfg(feature = "survey")]
    pub(super) answers_surveys: bool,
    pub(super) lock_order: bool,
    #[cfg(feature = "policy")]
    pub(super) config: Option<Arc<crate::policy::LockConfig>>,
    #[cfg(feature = "tls-rustls")]
    pub(super) tls: Option<TlsOptions>,
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
                token_ttl: DEFAULT_TOKEN_TTL,
            },
            max_waiters: 131_072,
            server_timeout: Duration::from_millis(250),
            #[cfg(feature = "survey")]
            service: None,
            #[cfg(feature = "survey")]
            answers_surveys: true,
            lock_order: cfg!(debug_assertions),
            #[cfg(feature = "policy")]
            config: None,
            #[cfg(feature = "tls-rustls")]
            tls: None,
        }
    }
}

impl LockClientBuilder {
    /// Sets the prefix of every name: with `shop`, the name `order:42` is the lock `shop:order:42`.
    // S-2.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Sets default options of this client's locks, over those that were set before.
    pub fn options(mut self, options: LockOptions) -> Self {
        self.options = options.or(self.options);
        self
    }

    /// Sets how long one command may take before its outcome counts as unknown. A longer time tolerates slow
    /// networks, a shorter one notices a dead connection sooner. Default: 1 s.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.timing.command_timeout = timeout;
        self
    }

    /// Sets how long one server of a [quorum](Self::connect_quorum) may take to answer before it counts as down. An acquire
    /// takes this long when so many servers are down that the rest is no majority; keep it small compared to the lease.
    /// Default: 250 ms.
    pub fn server_timeout(mut self, timeout: Duration) -> Self {
        self.server_timeout = timeout;
        self
    }

    /// Sets how long an acquire tolerates a store that cannot be reached, even one with `Wait::Forever`. A
    /// longer time survives failovers, a shorter one fails requests sooner. The acquire ends at most 150 ms
    /// after that, because the last command still gets 100 ms. Default: 5 s.
    pub fn store_patience(mut self, patience: Duration) -> Self {
        self.timing.store_patience = patience;
        self
    }

    /// Sets the longest sleep of a waiter between two attempts, jittered by a fifth. It bounds the delay that a
    /// lost notification causes; a shorter sleep asks the store more often. Default: 5 s. A waiter that could
    /// not subscribe asks about once a second.
    // S-15.
    #[cfg(feature = "__internals")]
    #[doc(hidden)]
    pub fn poll_cap(mut self, cap: Duration) -> Self {
        self.timing.poll_cap = cap;
        self
    }

    /// Sets how long the store keeps the place of a waiter that gives no sign of life: in the queue of a fair
    /// lock, among announced writers, among waiting readers. It is refreshed every third of this. Dead waiters
    /// together delay a queue for this long, and a dead waiting reader delays the writers as long. Default: 5
    /// s.
    // S-26, S-27.
    #[cfg(feature = "__internals")]
    #[doc(hidden)]
    pub fn waiter_lease(mut self, lease: Duration) -> Self {
        self.timing.waiter_lease = lease;
        self
    }

    /// Sets how long tasks of this process may hand a hold on to each other before other processes get a
    /// chance. A longer time is faster in this process and slower in others; zero disables hand-off. Default: 5
    /// ms.
    // S-14.
    #[cfg(feature = "__internals")]
    #[doc(hidden)]
    pub fn handoff_window(mut self, window: Duration) -> Self {
        self.timing.handoff_window = window;
        self
    }

    /// Sets how long the store keeps a name's fencing counter after its last use: between an hour and 30 days,
    /// and always for as long as the lease. A counter takes 100 to 200 bytes, so a shorter time saves memory if
    /// there are many names, as with keys that clients choose. Without a counter the server's clock keeps later
    /// tokens above earlier ones; a longer time also covers a clock that is set back. All clients of a store
    /// should use the same value. Default: 24 h.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::LockClient;
    /// use std::time::Duration;
    ///
    /// let hour = Duration::from_secs(60 * 60);
    /// assert!(LockClient::builder().token_ttl(hour).in_memory().is_ok());
    /// assert!(LockClient::builder().token_ttl(hour / 2).in_memory().is_err());
    /// ```
    pub fn token_ttl(mut self, token_ttl: Duration) -> Self {
        self.timing.token_ttl = token_ttl;
        self
    }

    /// Sets how many tasks may wait for locks in this client before further ones get [`LockError::Busy`].
    /// Default: 131 072.
    // S-18.
    pub fn max_waiters(mut self, max_waiters: usize) -> Self {
        self.max_waiters = max_waiters;
        self
    }

    /// Sets the name of the service that this client belongs to, for [surveys](crate::admin::Survey) and the
    /// [names of its connections](LockClient::id). Default: the name of the executable.
    ///
    /// # Examples
    ///
    /// ```
    /// let client = lock_runtime::LockClient::builder().service("billing").in_memory()?;
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    #[cfg(feature = "survey")]
    pub fn service(mut self, service: impl Into<String>) -> Self {
        self.service = Some(service.into());
        self
    }

    /// Sets whether the client answers [surveys](crate::admin::Survey), which costs one subscription, and nothing until it is asked.
    /// Default: it does.
    ///
    /// # Examples
    ///
    /// ```
    /// let silent = lock_runtime::LockClient::builder().survey(false).in_memory()?;
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    #[cfg(feature = "survey")]
    pub fn survey(mut self, answers: bool) -> Self {
        self.answers_surveys = answers;
        self
    }

    /// Sets whether acquires inside of other holds are recorded, to find [orders that contradict each
    /// other](crate::admin::LockOrder). Default: true in programs with debug assertions.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::LockClient;
    ///
    /// let client = LockClient::builder().lock_order(true).in_memory()?;
    /// println!("{}", client.admin().lock_order());
    /// # Ok::<_, lock_runtime::LockError>(())
    /// ```
    #[cfg(feature = "lock-order")]
    pub fn lock_order(mut self, is_recorded: bool) -> Self {
        self.lock_order = is_recorded;
        self
    }

    /// Sets the clock that measures leases, in place of the store's; for tests.
    // S-11.
    #[cfg(feature = "__internals")]
    #[doc(hidden)]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Sets the certificates that every way to connect trusts and presents: to one server, a quorum, sentinels or a cluster. It
    /// then accepts `rediss://` addresses only.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use lock_runtime::client::TlsOptions;
    /// use lock_runtime::LockClient;
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

    pub(crate) fn check(&self) -> Result<(), LockError> {
        if let Some(namespace) = &self.namespace {
            LockKey::check_namespace(namespace)?;
        }
        let Timing { command_timeout, store_patience, poll_cap, waiter_lease, token_ttl, .. } =
            self.timing;
        if !TOKEN_TTL.contains(&token_ttl) {
            return Err(LockError::InvalidOptions(format!(
                "token_ttl is {token_ttl:?}; give between an hour and 30 days"
            )));
        }
        let durations = [
            ("waiter_lease", waiter_lease),
            ("command_timeout", command_timeout),
            ("server_timeout", self.server_timeout),
            ("store_patience", store_patience),
            ("poll_cap", poll_cap),
        ];
        durations.into_iter().try_for_each(|(name, duration)| check_setting(name, duration))?;
        self.settings().map(drop)
    }

    pub(super) fn settings(&self) -> Result<Settings, LockError> {
        Ok(Settings {
            namespace: self.namespace.clone(),
            options: Arc::new(self.options.clone()),
            #[cfg(feature = "survey")]
            _presence: None,
            #[cfg(feature = "survey")]
            known_names: Arc::default(),
            #[cfg(feature = "policy")]
            configured: self.configured()?.into(),
            #[cfg(feature = "policy")]
            followers: super::config::Followers::default(),
        })
    }

    pub(super) fn build(
        self,
        store: Arc<dyn Store>,
        #[cfg_attr(not(feature = "survey"), expect(unused_mut))] mut settings: Settings,
    ) -> LockClient {
        let clock = self.clock.unwrap_or_else(|| store.clock());
        let order = ClientOrder::new(self.lock_order, settings.namespace.as_deref());
        let (timing, waiters) = (self.timing, self.max_waiters);
        let engine = Engine::new(store, clock, timing, waiters, Arc::default(), order);
        let engine = Arc::new(engine);
        #[cfg(feature = "survey")]
        if self.answers_surveys {
            let (namespace, service) = (settings.namespace.as_deref(), self.service.as_deref());
            settings._presence = Some(Presence::new(&engine, namespace, service));
        }
        let client = LockClient { engine, settings: Arc::new(settings) };
        client.log_start();
        client
    }
}
