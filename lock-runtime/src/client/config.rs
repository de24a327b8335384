//! A client's configuration: its defaults, its policies, and their reload.

use std::sync::Arc;

use super::{LockClient, LockClientBuilder};
use crate::any_lock::AnyLock;
use crate::error::LockError;
use crate::key::IntoLockKey;
use crate::options::{LockOptions, LockSettings};
use crate::policy::{LockConfig, Policy};

/// A configuration in effect.
#[derive(Debug)]
pub(super) struct Configured {
    config: Arc<LockConfig>,
    /// The client's options with the defaults of the configuration.
    pub(super) options: Arc<LockOptions>,
}

impl Configured {
    fn new(config: Arc<LockConfig>, options: LockOptions) -> Result<Arc<Self>, LockError> {
        let options = Arc::new(config.over(options)?);
        Ok(Arc::new(Self { config, options }))
    }
}

impl LockClientBuilder {
    /// Uses policies, defaults and namespace of `config`. [`connect_config`](Self::connect_config) uses its
    /// address.
    ///
    /// Its `[lock.defaults]` override [`options`](Self::options), for every lock of the client.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::policy::LockConfig;
    /// use lock_runtime::{LockClient, Wait};
    ///
    /// let config = LockConfig::from_toml("[lock.defaults]\nwait = 'none'")?;
    /// let client = LockClient::builder().config(config).in_memory()?;
    /// assert_eq!(client.options().wait(), Wait::Never);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn config(mut self, config: LockConfig) -> Self {
        if let Some(namespace) = config.namespace() {
            self.namespace = Some(namespace.to_owned());
        }
        if let Some(token_ttl) = config.token_ttl() {
            self = self.token_ttl(token_ttl);
        }
        self.config = Some(Arc::new(config));
        self
    }

    pub(super) fn configured(&self) -> Result<Option<Arc<Configured>>, LockError> {
        let config = self.config.clone();
        config.map(|config| Configured::new(config, self.options)).transpose()
    }
}

/// Locks of two kinds do not wait for each other in the store, so a change of the kind is for times without calls.
fn warn_of_other_kinds(old: &LockConfig, new: &LockConfig) {
    let kind = |policy: &Policy| policy.settings().kind.unwrap_or_default();
    for policy in new.policies() {
        let name = policy.name();
        let Some(before) = old.policies().find(|old| old.name() == name) else { continue };
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

    /// Puts `config` into effect for all clones of this client, in place of any earlier one.
    ///
    /// Locks that are created from now on follow it. Holds keep their lease, and waiters keep their options: a
    /// [`Mutex`](crate::Mutex) or [`AnyLock`] has the options of the time of its creation. The client does not
    /// connect to an address in it, and keeps its namespace and `token_ttl`.
    ///
    /// If a policy has another kind, this is logged at `warn`: a call of the new kind finds the lock busy while a
    /// call of this client with the old kind holds it, and fails with [`LockError::KeyCollision`] while another
    /// process does.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOptions`] if it contradicts the client's own options, or has another namespace,
    /// which would change the names of locks. The old configuration then stays in effect.
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
    /// assert_eq!(client.policy("checkout")?.settings().wait, Some(Wait::Never));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn reload(&self, config: LockConfig) -> Result<(), LockError> {
        let old = self.config();
        // The client's namespace may not come from the configuration, or from one that has none any more.
        let before = old.as_ref().and_then(|old| old.namespace());
        let before = before.or(self.settings.namespace.as_deref());
        if let Some(namespace) = config.namespace().filter(|it| Some(*it) != before) {
            return Err(LockError::InvalidOptions(format!(
                "lock.namespace is {namespace:?} and was {:?}, so the same locks would have other \
                 names; start a new client for it",
                before.unwrap_or_default()
            )));
        }
        let place = |config: &LockConfig| (config.address().cloned(), config.restart_guard());
        if let Some(old) = &old {
            warn_of_other_kinds(old, &config);
        }
        if old.is_some_and(|old| place(&old) != place(&config)) {
            tracing::warn!(
                "the new lock configuration has another address or `restart_guard`; a new client would use it"
            );
        }
        let configured = Configured::new(Arc::new(config), *self.settings.options)?;
        self.settings.configured.store(Some(configured));
        Ok(())
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
        match &*self.settings.configured.load() {
            Some(configured) => configured.config.policy(name),
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
        let options = self.policy(policy).and_then(|policy| {
            let settings = policy.settings();
            let options = self.options_of(&policy, settings)?;
            Ok((settings.kind.unwrap_or_default(), options, policy.label()))
        });
        match options {
            Ok((kind, options, label)) => self.any_lock(kind, names).with(options).labelled(label),
            Err(error) => AnyLock::invalid(error),
        }
    }

    /// Returns the options of a lock with `literals` and `policy`: the literals override the policy, or the
    /// policy overrides them, see [`Policy::resolve`].
    ///
    /// All of them come from one configuration, even while another comes into effect.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOptions`] if literals and policy contradict each other.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::options::LockSettings;
    /// use lock_runtime::policy::LockConfig;
    /// use lock_runtime::{LockClient, Wait};
    ///
    /// let config = LockConfig::from_toml("[lock.policies.checkout]\nmax_waiters = 10")?;
    /// let client = LockClient::builder().config(config).in_memory()?;
    /// let literals = LockSettings::default().wait(Wait::Never);
    /// let options = client.options_of(&client.policy("checkout")?, literals)?;
    /// assert_eq!((options.wait(), options.max_waiters()), (Wait::Never, 10));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn options_of(
        &self,
        policy: &Policy,
        literals: LockSettings,
    ) -> Result<LockOptions, LockError> {
        // Not applied over the defaults in effect: the policy brings those of its own configuration.
        policy.resolve(literals).apply_to(*self.settings.options)
    }

    /// Returns the options that the client would have with that configuration.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOptions`] if the defaults of the configuration contradict the client's options.
    #[doc(hidden)]
    pub fn options_under(&self, config: &LockConfig) -> Result<LockOptions, LockError> {
        config.over(*self.settings.options)
    }

    /// Checks every annotated function of the program against the configuration in effect: call it when the
    /// program starts, before there is traffic.
    ///
    /// # Errors
    ///
    /// [`SiteProblems`](crate::policy::SiteProblems) with every function that names a policy which the
    /// configuration does not have, or whose literals contradict its policy, as [`LockConfig::check`] finds
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
    ///     client.check_sites()?;
    ///     Ok(client)
    /// }
    ///
    /// assert!(start("[lock.policies.checkout]\nwait = '2s'").is_ok());
    /// let error = start("[lock.policies.chekout]\nwait = '2s'").unwrap_err();
    /// assert!(error.to_string().contains("no lock policy \"checkout\""));
    /// ```
    #[cfg(feature = "sites")]
    pub fn check_sites(&self) -> Result<(), crate::policy::SiteProblems> {
        self.config().unwrap_or_default().check(crate::site::sites())
    }
}
