//! A client's configuration: its defaults, its policies, and their reload.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::{LockClient, LockClientBuilder};
use crate::any_lock::AnyLock;
use crate::error::LockError;
use crate::key::IntoLockKey;
use crate::options::LockOptions;
use crate::place::Place;
#[cfg(feature = "redis")]
use crate::place::Tls;
use crate::policy::{ConfigError, ConfigProblem, EffectivePolicy, LockConfig, Policy, shown};

/// A configuration in effect.
#[derive(Debug)]
pub struct LayerConfig {
    config: Arc<LockConfig>,
    policies: HashMap<String, EffectivePolicy>,
    /// The client's options with the defaults of the configuration.
    pub(super) options: Arc<LockOptions>,
}

impl LayerConfig {
    /// Checks the configuration, also together with the options of a client.
    fn new(config: Arc<LockConfig>, options: &LockOptions) -> Result<Arc<Self>, ConfigError> {
        let policies = config.effective()?;
        let contradiction = |(path, policy): (String, &Policy)| {
            let error = policy.options().or(options.clone()).check().err()?;
            let message = format!("contradicts the options of the client: {error}");
            Some(ConfigProblem::new(path, message))
        };
        let named = config.policies().map(|(name, _)| (name, policies.get(name)));
        let named = named.filter_map(|(name, policy)| {
            Some((crate::policy::join("lock.policies", name), policy?.policy()))
        });
        let defaults = ("lock.defaults".to_owned(), config.defaults());
        ConfigError::of([defaults].into_iter().chain(named).filter_map(contradiction).collect())?;
        let options = Arc::new(config.defaults().options().over(options));
        Ok(Arc::new(Self { config, policies, options }))
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &Arc<LockConfig> {
        &self.config
    }

    /// Returns the client's options with the defaults of the configuration.
    #[must_use]
    pub fn options(&self) -> &Arc<LockOptions> {
        &self.options
    }

    /// Returns the policy of that name.
    ///
    /// # Errors
    ///
    /// [`LockError::UnknownPolicy`] if there is none.
    pub fn policy(&self, name: &str) -> Result<EffectivePolicy, LockError> {
        self.policies.get(name).cloned().ok_or_else(|| self.config.unknown(name))
    }
}

/// What follows the configuration of a client, and can refuse another one.
pub trait Follower: Send + Sync {
    /// Returns what hinders it from following the configuration with that client.
    ///
    /// # Errors
    ///
    /// A sentence that begins with the path in the configuration, or with its own place.
    fn check(&self, client: &LockClient, config: &LayerConfig) -> Result<(), String>;
}

/// The followers of a client.
#[derive(Default)]
pub(super) struct Followers(Mutex<Vec<Weak<dyn Follower>>>);

impl fmt::Debug for Followers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Followers").finish_non_exhaustive()
    }
}

impl LockClientBuilder {
    /// Uses policies, defaults, namespace and times of `config`. [`connect_config`](Self::connect_config) uses its
    /// address and certificates.
    ///
    /// Its `[lock.defaults]` override [`options`](Self::options), for every lock of the client, and its
    /// `store_patience`, `command_timeout` and `token_ttl` those of this builder. An invalid configuration is an error
    /// when the client is made.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::policy::LockConfig;
    /// use lock_runtime::{LockClient, LockOptions, Wait};
    ///
    /// let config = LockConfig::from_toml("[lock.defaults]\nwait = 'none'")?;
    /// let client = LockClient::builder().config(config).in_memory()?;
    /// assert_eq!(client.options(), LockOptions::new().wait(Wait::None));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn config(mut self, config: LockConfig) -> Self {
        if let Some(namespace) = config.namespace() {
            self.namespace = Some(namespace.to_owned());
        }
        let [token_ttl, patience, timeout] = config.timing();
        self = token_ttl.into_iter().fold(self, Self::token_ttl);
        self = patience.into_iter().fold(self, Self::store_patience);
        self = timeout.into_iter().fold(self, Self::command_timeout);
        self.config = Some(Arc::new(config));
        self
    }

    pub(super) fn configured(&self) -> Result<Option<Arc<LayerConfig>>, LockError> {
        let config = self.config.clone();
        Ok(config.map(|config| LayerConfig::new(config, &self.options)).transpose()?)
    }
}

/// Locks of two kinds do not wait for each other in the store, so a change of the kind is for times without calls.
fn warn_of_other_kinds(old: &LayerConfig, new: &LayerConfig) {
    let kind = |policy: &EffectivePolicy| policy.options().kind.unwrap_or_default();
    for (name, policy) in &new.policies {
        let Some(before) = old.policies.get(name) else { continue };
        let (before, now) = (kind(before), kind(policy));
        if before != now {
            tracing::warn!(
                lock.policy = name,
                "the kind of a lock policy was {before} and is {now}: until the calls that run have ended, in all \
                 processes, calls of the new kind are refused"
            );
        }
    }
}

impl LockClient {
    /// Returns the configuration in effect.
    #[must_use]
    pub fn config(&self) -> Option<Arc<LockConfig>> {
        let configured = self.settings.configured.load();
        configured.as_ref().map(|configured| Arc::clone(&configured.config))
    }

    /// Puts `config` into effect for all clones of this client, in place of any earlier one, or refuses it as a whole.
    ///
    /// Locks that are created from now on follow it. Holds keep their lease, and waiters keep their options: a
    /// [`Mutex`](crate::Mutex) or [`AnyLock`] has the options of the time of its creation. The client does not
    /// connect to an address in it, and keeps its namespace, `token_ttl`, `store_patience` and `command_timeout`.
    ///
    /// It is checked first with all that follows the configuration in effect: the layers of the crate `lock-tower`
    /// that use this client and, with the feature `sites`, every annotated function of the program. What does not
    /// match the configuration in effect either, such as a function that uses another client, does not count.
    ///
    /// If a policy has another kind, this is logged at `warn`: a call of the new kind finds the lock busy while a
    /// call of this client with the old kind holds it, and fails with [`LockError::KeyCollision`] while another
    /// process does.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with every problem: it contradicts itself or the client's own options, an annotated function or
    /// a layer could not follow it, or it has another namespace, which would change the names of locks. The old
    /// configuration then stays in effect.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::policy::LockConfig;
    /// use lock_runtime::{LockClient, Wait};
    ///
    /// let client = LockClient::in_memory();
    /// let config = LockConfig::from_toml("[lock.policies.checkout]\nwait = 'none'")?;
    /// client.reload(config)?;
    /// assert_eq!(client.policy("checkout")?.wait, Some(Wait::None));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn reload(&self, config: LockConfig) -> Result<(), ConfigError> {
        let old = self.layer_config();
        let new = LayerConfig::new(Arc::new(config), &self.settings.options)?;
        // The client's namespace may not come from the configuration, or from one that has none any more.
        let before = old.as_ref().and_then(|old| old.config.namespace());
        let before = before.or(self.settings.namespace.as_deref()).unwrap_or_default();
        let mut problems = Vec::new();
        if let Some(namespace) = new.config.namespace().filter(|it| *it != before) {
            let message = format!(
                "is {:?} and was {:?}, so the same locks would have other names; start a new client for it",
                shown(namespace),
                shown(before)
            );
            problems.push(ConfigProblem::new("lock.namespace", message));
        }
        self.lost_followers(old.as_deref(), &new, &mut problems);
        ConfigError::of(problems)?;
        if let Some(old) = old {
            warn_of_other_kinds(&old, &new);
            let place = |of: &LayerConfig| (of.config.place(), of.config.restart_guard());
            if place(&old) != place(&new) {
                tracing::warn!(
                    "the new lock configuration has another address or `restart_guard`; a new client would use it"
                );
            }
        }
        self.settings.configured.store(Some(new));
        Ok(())
    }

    /// Reports the functions and layers that follow the old configuration and could not follow the new one.
    fn lost_followers(
        &self,
        old: Option<&LayerConfig>,
        new: &LayerConfig,
        problems: &mut Vec<ConfigProblem>,
    ) {
        #[cfg(feature = "sites")]
        for site in crate::site::sites() {
            let nothing = LockConfig::default();
            let before = old.map_or(&nothing, |old| &old.config);
            problems.extend(new.config.misfit(site).filter(|_| before.misfit(site).is_none()));
        }
        let followers: Vec<_> =
            self.settings.followers.0.lock().iter().filter_map(Weak::upgrade).collect();
        for follower in followers {
            if let Err(problem) = follower.check(self, new)
                && old.is_none_or(|old| follower.check(self, old).is_ok())
            {
                problems.push(ConfigProblem::new("", problem));
            }
        }
    }

    /// Has `follower` checked before each reload.
    pub(crate) fn follow(&self, follower: Weak<dyn Follower>) {
        let mut followers = self.settings.followers.0.lock();
        followers.retain(|known| known.strong_count() > 0);
        if !followers.iter().any(|known| known.ptr_eq(&follower)) {
            followers.push(follower);
        }
    }

    /// Returns the configuration in effect, as layers see it.
    pub(crate) fn layer_config(&self) -> Option<Arc<LayerConfig>> {
        self.settings.configured.load_full()
    }

    /// Returns the policy of that name in the configuration in effect.
    ///
    /// # Errors
    ///
    /// [`LockError::UnknownPolicy`] if there is no such policy, or no configuration.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::LockClient;
    ///
    /// let error = LockClient::in_memory().policy("checkout").unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "no lock policy \"checkout\": the client has no configuration; give it one with \
    ///      `LockClient::from_config` or `LockClientBuilder::config`"
    /// );
    /// ```
    pub fn policy(&self, name: &str) -> Result<Policy, LockError> {
        self.effective_policy(name).map(|policy| policy.policy().clone())
    }

    /// Returns the policy as layers see it.
    ///
    /// # Errors
    ///
    /// As [`policy`](Self::policy).
    pub(crate) fn effective_policy(&self, name: &str) -> Result<EffectivePolicy, LockError> {
        match &*self.settings.configured.load() {
            Some(configured) => configured.policy(name),
            None => Err(LockError::UnknownPolicy {
                policy: name.to_owned(),
                detail: "the client has no configuration; give it one with \
                         `LockClient::from_config` or `LockClientBuilder::config`"
                    .to_owned(),
            }),
        }
    }

    /// Returns the lock of that name with the policy's options, or a lock of all these names, all or none. An
    /// acquire reports an unknown policy or an invalid name.
    ///
    /// The policy's `key` and `enforce` are for attributes and layers, and ignored here.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use lock_runtime::LockClient;
    /// use lock_runtime::policy::LockConfig;
    ///
    /// let config = LockConfig::from_toml("[lock.policies.checkout]\nkind = 'fair'")?;
    /// let client = LockClient::builder().config(config).in_memory()?;
    /// let guard = client.policy_lock("checkout", ["cart:7"]).lock().await?;
    /// assert!(client.fair_mutex("cart:7").try_lock().await?.is_none());
    /// guard.release().await?;
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn policy_lock<N: IntoLockKey>(
        &self,
        policy: &str,
        names: impl IntoIterator<Item = N>,
    ) -> AnyLock {
        match self.effective_policy(policy) {
            Ok(policy) => {
                let options = policy.options();
                let kind = options.kind.unwrap_or_default();
                let options = Arc::new(options.over(&self.settings.options));
                self.any_lock(kind, names).replace(options).labelled(policy.label())
            }
            Err(error) => AnyLock::invalid(error),
        }
    }

    /// Returns the options of a lock with `literals` over `policy`.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOptions`] if literals and policy contradict each other.
    pub(crate) fn options_of(
        &self,
        policy: &EffectivePolicy,
        literals: LockOptions,
    ) -> Result<LockOptions, LockError> {
        // Not applied over the defaults in effect: the policy brings those of its own configuration.
        let options = literals.or(policy.options()).over(&self.settings.options);
        options.check().map(|()| options)
    }
}

impl LockClient {
    /// Connects to the address of the configuration, and follows the configuration.
    ///
    /// # Errors
    ///
    /// As [`LockClientBuilder::connect_config`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections that it opened.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use lock_runtime::LockClient;
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
    /// let client = LockClient::from_config(config).await?;
    /// client.install();
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub async fn from_config(config: LockConfig) -> Result<Self, LockError> {
        Self::builder().connect_config(config).await
    }
}

impl LockClientBuilder {
    /// Connects to the address of the configuration, and follows it, as [`config`](Self::config) does.
    ///
    /// # Errors
    ///
    /// - [`LockError::InvalidOptions`] if it is invalid, has no address, or one of a kind that this release or this
    ///   build does not support, or if a file of `lock.tls` cannot be read.
    /// - As [`LockClient::connect`]; for sentinels [`connect_sentinel`](Self::connect_sentinel), for a cluster
    ///   [`connect_cluster`](Self::connect_cluster), and for a quorum
    ///   [`connect_quorum`](Self::connect_quorum).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections that it opened.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use lock_runtime::LockClient;
    /// use lock_runtime::policy::LockConfig;
    ///
    /// let config = LockConfig::from_toml_file("app.toml")?;
    /// let client = LockClient::builder().max_waiters(10_000).connect_config(config).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect_config(self, config: LockConfig) -> Result<LockClient, LockError> {
        let address = config.place();
        #[cfg(feature = "redis")]
        let (guard, tls) = (config.restart_guard(), config.tls().cloned());
        let builder = self.config(config);
        #[cfg(feature = "redis")]
        let builder = match tls {
            Some(tls) => builder.certificates(&tls)?,
            None => builder,
        };
        let invalid = |message: &str| Err(LockError::InvalidOptions(message.to_owned()));
        match address {
            Some(Place::Memory) => builder.in_memory(),
            None => invalid(
                "the configuration names no server; give one as lock.url, or \"memory:\" for locks \
                 of this process",
            ),
            #[cfg(feature = "redis")]
            Some(Place::Server(url)) => builder.connect(url.as_ref()).await,
            #[cfg(feature = "redis")]
            Some(Place::Quorum(nodes)) => match guard {
                Some(guard) => builder.connect_quorum(nodes, guard).await,
                None => invalid("a quorum needs a choice: set `lock.restart_guard`"),
            },
            #[cfg(feature = "redis")]
            Some(Place::Sentinel(crate::place::Sentinel { master, nodes })) => {
                builder.connect_sentinel(master.as_ref(), nodes).await
            }
            #[cfg(feature = "redis")]
            Some(Place::Cluster(nodes)) => builder.connect_cluster(nodes).await,
            #[cfg(not(feature = "redis"))]
            Some(Place::Server(_) | Place::Cluster(_) | Place::Sentinel(_) | Place::Quorum(_)) => {
                invalid(
                    "this build has no Redis in it; turn on the feature `redis` of lock-runtime",
                )
            }
        }
    }

    /// Reads the files of `lock.tls`, which a program reads once, when it starts.
    #[cfg(feature = "tls-rustls")]
    fn certificates(self, tls: &Tls) -> Result<Self, LockError> {
        let read = |field: &str, file: &str| {
            std::fs::read(file).map_err(|error| {
                // Without the path: a value in the wrong line may be an address.
                LockError::InvalidOptions(format!(
                    "lock.tls.{field}: the file cannot be read: {error}"
                ))
            })
        };
        let mut options = crate::store::redis::TlsOptions::new();
        if let Some(ca) = &tls.ca {
            options = options.root_certificate(read("ca", ca)?);
        }
        // A checked configuration has both or neither.
        if let (Some(certificate), Some(key)) = (&tls.certificate, &tls.key) {
            let chain = read("certificate", certificate)?;
            options = options.client_certificate(chain, read("key", key)?);
        }
        Ok(self.tls(options))
    }

    /// Refuses certificates in a build without TLS.
    #[cfg(all(feature = "redis", not(feature = "tls-rustls")))]
    fn certificates(self, _: &Tls) -> Result<Self, LockError> {
        let message = "lock.tls: this build has no TLS in it; turn on the feature `tls-rustls` of lock-runtime";
        Err(LockError::InvalidOptions(message.to_owned()))
    }
}
