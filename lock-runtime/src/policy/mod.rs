//! Locks that a file configures: policies, and where locks are kept.
//!
//! ```toml
//! [lock]
//! url = "redis://127.0.0.1:6379"      # or "memory:"
//! # quorum = ["…", "…", "…"]          # with it: restart_guard = "30s", the longest lease, or "none"
//! # sentinel = { master = "locks", nodes = ["redis://one:26379", "…", "…"] }
//! # tls = { ca = "ca.pem" }           # for rediss://, in place of Mozilla's list
//! namespace = "shop"
//! # store_patience = "20s"            # longer than a failover takes; 5 s if left out
//!
//! [lock.defaults]                     # of every lock, also of those without a policy
//! wait = "3s"
//! lease = "watchdog 30s"
//!
//! [lock.base.strict]                  # to build policies upon
//! kind = "fair"
//! replicas = { acks = 1, timeout = "200ms" }
//!
//! [lock.policies.checkout]
//! base = "strict"
//! key = "cart:{header.x-cart}"        # for layers
//! wait = "2s"
//! max_hold = "5m"
//! max_waiters = 100
//! http = { busy = 409, hold = "auto", methods = ["POST"] }
//!
//! [lock.policies.refund]
//! base = "strict"
//! enforce = false                     # on trial: each call runs anyway, and what would have blocked it is recorded
//!
//! [[lock.routes]]                     # for layers
//! methods = ["POST"]
//! path = "/orders/{id}/pay"
//! policy = "checkout"
//! ```
//!
//! # Reading it
//!
//! `LockConfig::from_toml_file` reads a file, `from_toml` a text (feature `toml`), and `from_figment` a figment
//! (feature `figment-010`). Reading refuses an invalid configuration, with the path to each problem, and no error
//! shows any part of an address. `LockClient::from_config(config)` connects to the address in it; a program that
//! connects by itself passes it to `LockClient::builder().config(…)`. Values are words as in attributes, but in quotes:
//! `wait = "none"`, `lease = "watchdog 45s"`.
//!
//! A program's own tables may be in the same file. Read the locks first: the errors of `toml::from_str` quote
//! the wrong line, and an address in it may contain a password.
//!
//! ```
//! use lock_runtime::LockClient;
//! use lock_runtime::policy::LockConfig;
//! use serde::Deserialize;
//!
//! #[derive(Deserialize)]
//! struct AppConfig {
//!     port: u16,
//! }
//!
//! let text = r#"
//!     port = 8080
//!     [lock.policies.checkout]
//!     wait = "2s"
//! "#;
//! let locks = LockConfig::from_toml(text)?;
//! let app: AppConfig = toml::from_str(text)?;
//! let client = LockClient::builder().config(locks).in_memory()?;
//! assert!(client.policy("checkout").is_ok());
//! # assert_eq!(app.port, 8080);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! [`LockConfig`] also implements `Deserialize`, so it can be a field of a program's own configuration in every format
//! and loader of serde, such as the crates `figment` and `config`; [`LockConfig::from_deserializer`] reads other formats
//! with the errors of this module.
//!
//! # With variables of the environment
//!
//! With figment, `MYAPP_LOCK__POLICIES__CHECKOUT__WAIT=5s` overrides the file: two underscores go one table down. Such
//! variables are lower-cased, so they reach only names without capitals and, in most shells, without `-`.
//!
//! ```no_run
//! # #[cfg(feature = "figment-010")]
//! # fn main() -> Result<(), lock_runtime::policy::ConfigError> {
//! use figment::Figment;
//! use figment::providers::{Env, Format, Toml};
//! use lock_runtime::policy::LockConfig;
//!
//! let figment = Figment::new()
//!     .merge(("lock.namespace", "shop")) // what the program says
//!     .merge(Toml::file("app.toml")) // or `Json::file`
//!     .merge(Env::prefixed("MYAPP_").split("__"));
//! let config = LockConfig::from_figment(&figment)?; // feature `figment-010`
//! assert_eq!(config.namespace(), Some("shop"));
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "figment-010"))]
//! # fn main() {}
//! ```
//!
//! # Precedence
//!
//! From the lowest: the client's options, `[lock.defaults]`, the bases, the policy, the literal of an
//! attribute or a layer, the call.

mod check;
pub(crate) mod effective;
mod entry;
mod error;
#[cfg(any(feature = "toml", feature = "figment-010"))]
mod load;
mod raw;
mod sites;
mod table;
pub(crate) mod text;
#[cfg(feature = "figment-010")]
mod variables;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::{DeserializeOwned, Deserializer, Error};
use serde::{Deserialize, Serialize};

pub(crate) use self::effective::EffectivePolicy;
use self::entry::Entry;
pub use self::entry::Policy;
pub use self::error::{ConfigError, ConfigProblem};
pub(crate) use self::error::{join, shown};
use self::raw::Raw;
use self::table::{Map, Named, nullable, table};
use crate::error::LockError;
pub(crate) use crate::options::forms::span;
pub(crate) use crate::options::values::RestartGuard;
use crate::place::{Address, Place, Sentinel, Tls};

/// A configuration of locks: the table `[lock]` of a file.
///
/// Read it with one of its functions, or as a field of a program's own configuration; both check it. The
/// [module](self) describes the table. `Serialize` writes it as it was read, with addresses and their passwords, while
/// `Debug` hides these.
///
/// # Examples
///
/// ```
/// use lock_runtime::policy::LockConfig;
///
/// let text = "[lock.policies.checkout]\nwait = 5";
/// let error = LockConfig::from_toml(text).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "lock.policies.checkout.wait: invalid type: integer `5`, expected how long to wait: \"3s\", \
///      \"none\" or \"forever\" (line 2, column 8)"
/// );
///
/// // A field of a program's own configuration.
/// #[derive(serde::Deserialize)]
/// struct AppConfig {
///     lock: LockConfig,
/// }
/// let app: AppConfig = serde_json::from_str(r#"{ "lock": { "namespace": "shop" } }"#)?;
/// assert_eq!(app.lock.namespace(), Some("shop"));
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(transparent)]
pub struct LockConfig(Table);

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "the table [lock]")]
struct Table {
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<Address>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<Vec<Address>>,
    #[serde(deserialize_with = "table", skip_serializing_if = "Option::is_none")]
    sentinel: Option<Sentinel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quorum: Option<Vec<Address>>,
    #[serde(with = "text::restart_guard", skip_serializing_if = "Option::is_none")]
    restart_guard: Option<RestartGuard>,
    #[serde(deserialize_with = "table", skip_serializing_if = "Option::is_none")]
    tls: Option<Tls>,
    #[serde(with = "text::duration", skip_serializing_if = "Option::is_none")]
    store_patience: Option<Duration>,
    #[serde(with = "text::duration", skip_serializing_if = "Option::is_none")]
    command_timeout: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(with = "text::duration", skip_serializing_if = "Option::is_none")]
    token_ttl: Option<Duration>,
    #[serde(deserialize_with = "table", skip_serializing_if = "Policy::is_empty")]
    defaults: Policy,
    #[serde(deserialize_with = "by_name", skip_serializing_if = "BTreeMap::is_empty")]
    base: BTreeMap<String, Policy>,
    #[serde(deserialize_with = "by_name", skip_serializing_if = "BTreeMap::is_empty")]
    policies: BTreeMap<String, Policy>,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    routes: Vec<Raw>,
}

fn by_name<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, Policy>, D::Error> {
    nullable(from).map(|Named(policies)| policies)
}

impl LockConfig {
    /// Reads a file that has a table `[lock]`, of any format; other tables are ignored.
    ///
    /// For TOML, use [`from_toml`](Self::from_toml), which also parses.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if it cannot be read, has no such table, or contradicts itself.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::policy::LockConfig;
    ///
    /// let text = r#"{ "lock": { "namespace": "shop", "defaults": { "wait": "3s" } } }"#;
    /// let config = LockConfig::from_deserializer(&mut serde_json::Deserializer::from_str(text))?;
    /// assert_eq!(config.namespace(), Some("shop"));
    /// # Ok::<_, lock_runtime::policy::ConfigError>(())
    /// ```
    pub fn from_deserializer<'de, D: Deserializer<'de>>(from: D) -> Result<Self, ConfigError> {
        #[derive(Deserialize)]
        struct File {
            #[serde(default, deserialize_with = "table")]
            lock: Option<Table>,
        }
        let file: File = serde_path_to_error::deserialize(from)
            .map_err(|error| ConfigError::from_serde("", &error))?;
        Self::checked(file.lock.ok_or_else(ConfigError::no_table)?)
    }

    fn checked(table: Table) -> Result<Self, ConfigError> {
        let config = Self(table);
        config.check().map(|()| config)
    }

    /// Returns the policy of that name, including what it inherits from its bases and the defaults.
    ///
    /// # Errors
    ///
    /// [`LockError::UnknownPolicy`] if there is none.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::Wait;
    /// use lock_runtime::policy::LockConfig;
    ///
    /// let config = LockConfig::from_toml("[lock.defaults]\nwait = 'none'\n[lock.policies.checkout]")?;
    /// assert_eq!(config.policy("checkout")?.wait, Some(Wait::None));
    /// assert_eq!(
    ///     config.policy("chekout").unwrap_err().to_string(),
    ///     "no lock policy \"chekout\": did you mean \"checkout\"?"
    /// );
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn policy(&self, name: &str) -> Result<Policy, LockError> {
        let policy = self.0.policies.get(name).ok_or_else(|| self.unknown(name))?;
        let mut chain = self.chain(Entry { path: String::new(), policy });
        chain.push(self.defaults_entry());
        Ok(chain.iter().fold(Policy::default(), |all, entry| all.or(entry.policy)))
    }

    /// The error of a policy that does not exist.
    pub(crate) fn unknown(&self, name: &str) -> LockError {
        /// Few enough to read.
        const SHOWN: usize = 8;
        let mut known = self.0.policies.keys().map(String::as_str);
        let detail = match lock_syntax::nearest(name, known.clone()) {
            Some(near) => format!("did you mean {near:?}?"),
            None if self.0.policies.is_empty() => {
                "the configuration has none; add it under [lock.policies]".to_owned()
            }
            None => {
                let shown: Vec<_> = known.by_ref().take(SHOWN).collect();
                let more = if known.next().is_some() { ", …" } else { "" };
                format!("the configuration has {}{more}", shown.join(", "))
            }
        };
        LockError::UnknownPolicy { policy: name.to_owned(), detail }
    }

    /// Returns the policies by name, as they are written: without what they inherit.
    pub fn policies(&self) -> impl Iterator<Item = (&str, &Policy)> {
        self.0.policies.iter().map(|(name, policy)| (name.as_str(), policy))
    }

    /// Returns `[lock.defaults]`: the settings of every lock that has no others.
    #[must_use]
    pub fn defaults(&self) -> &Policy {
        &self.0.defaults
    }

    /// Adds a policy, or replaces the one of that name. A client checks the configuration when it gets it.
    pub fn insert(&mut self, name: impl Into<String>, policy: Policy) {
        self.0.policies.insert(name.into(), policy);
    }

    /// Returns the prefix of every name.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.0.namespace.as_deref()
    }

    pub(crate) fn place(&self) -> Option<Place> {
        self.given().pop().map(|(_, place)| place)
    }

    pub(crate) fn restart_guard(&self) -> Option<RestartGuard> {
        self.0.restart_guard
    }

    #[cfg(feature = "redis")]
    pub(crate) fn tls(&self) -> Option<&Tls> {
        self.0.tls.as_ref()
    }

    /// Returns `token_ttl`, `store_patience` and `command_timeout`.
    pub(crate) fn timing(&self) -> [Option<Duration>; 3] {
        [self.0.token_ttl, self.0.store_patience, self.0.command_timeout]
    }
}

/// For layers.
impl LockConfig {
    /// Reads `[[lock.routes]]`.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with the path of the first one that cannot be read.
    pub(crate) fn routes<T: DeserializeOwned>(&self) -> Result<Vec<T>, ConfigError> {
        let routes = self.0.routes.iter().enumerate();
        let read = |(at, route): (usize, &Raw)| {
            route.read(&format!("lock.routes[{at}]"), "a table with a path and a policy")
        };
        routes.map(read).collect()
    }

    /// Returns each table with settings, with its path: the defaults, the bases, the policies.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (String, &Policy)> {
        let named = [("lock.base", &self.0.base), ("lock.policies", &self.0.policies)];
        let named = named.into_iter().flat_map(|(table, entries)| {
            entries.iter().map(move |(name, policy)| (error::join(table, name), policy))
        });
        std::iter::once(("lock.defaults".to_owned(), &self.0.defaults)).chain(named)
    }

    /// Reads the HTTP settings of one table of [`tables`](Self::tables), without what they inherit.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with the path of the wrong one.
    pub(crate) fn http<T: DeserializeOwned + Default>(
        path: &str,
        of: &Policy,
    ) -> Result<T, ConfigError> {
        match &of.http {
            Some(http) => http.read(&format!("{path}.http"), effective::HTTP),
            None => Ok(T::default()),
        }
    }
}

impl<'de> Deserialize<'de> for LockConfig {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        serde_path_to_error::deserialize(from)
            .map_err(|error| ConfigError::from_serde("lock", &error))
            .and_then(|Map(table)| Self::checked(table))
            .map_err(D::Error::custom)
    }
}
