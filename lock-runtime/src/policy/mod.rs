//! Locks that a file configures: policies, routes, and where locks are kept.
//!
//! ```toml
//! [lock]
//! url = "redis://127.0.0.1:6379"      # or "memory:"
//! # quorum = ["…", "…", "…"]          # with it: restart_guard = "30s", the longest lease, or "none"
//! # sentinel = { master = "locks", nodes = ["redis://one:26379", "…", "…"] }
//! namespace = "shop"
//! # token_ttl = "1h"                  # how long fencing counters are kept; 24 h if left out
//! # override = "config"               # policies win over what the code says
//!
//! [lock.defaults]                     # of every lock, also of those without a policy
//! wait = "3s"
//! lease = "watchdog 30s"
//!
//! [lock.base.strict]                  # to build policies upon
//! kind = "fair"
//! replicas = { at_least = 1, timeout = "200ms" }
//!
//! [lock.policies.checkout]
//! base = "strict"
//! key = "cart:{header.x-cart}"        # for layers
//! wait = "2s"
//! max_hold = "5m"
//! max_waiters = 100
//! http = { busy = 409, hold = "auto", methods = ["POST"] }
//!
//! [lock.policies."tenant-*"]          # what fits a name closest wins, the name itself over all
//! base = "strict"
//! enforce = 10                        # enforced on one call in ten; the others run anyway and are only recorded
//!
//! [[lock.routes]]
//! methods = ["POST"]
//! path = "/orders/{id}/pay"
//! policy = "checkout"
//! ```
//!
//! # Reading it
//!
//! `LockConfig::from_toml_file` reads a file, `from_toml` a text (feature `toml`), and `from_figment` a figment
//! (feature `figment`). Reading refuses an invalid configuration, with the path to each problem, and no error
//! shows a password. `LockClient::from_config(config)` connects to the address in it; a program that connects
//! by itself passes it to `LockClient::builder().config(…)`. Values are words as in attributes, but in quotes:
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
//! assert_eq!(client.policy("checkout")?.name(), "checkout");
//! # assert_eq!(app.port, 8080);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Other formats that serde reads work too: [`LockConfig::from_deserializer`] has errors of the same kind.
//! [`LockConfig`] also implements `Deserialize`, so it can be a field of a program's own configuration; the
//! error is then the format's, which may quote the text around the problem.
//!
//! # With variables of the environment
//!
//! With figment, `MYAPP_LOCK_POLICIES__CHECKOUT__WAIT=5s` overrides the file. Such variables are lower-cased,
//! so they reach only names without capitals and, in most shells, without `-`.
//!
//! ```no_run
//! # #[cfg(feature = "figment")]
//! # fn main() -> Result<(), lock_runtime::policy::ConfigError> {
//! use figment::Figment;
//! use figment::providers::{Env, Format, Toml};
//! use lock_runtime::policy::LockConfig;
//!
//! let variables = Env::prefixed("MYAPP_LOCK_").map(|key| {
//!     format!("lock.{}", key.as_str().replace("__", ".")).into()
//! });
//! let figment = Figment::new()
//!     .merge(("lock.namespace", "shop")) // what the program says
//!     .merge(Toml::file("app.toml")) // or `Json::file`
//!     .merge(variables);
//! let config = LockConfig::from_figment(&figment)?; // feature `figment`
//! assert_eq!(config.namespace(), Some("shop"));
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "figment"))]
//! # fn main() {}
//! ```
//!
//! # Precedence
//!
//! From the lowest: the client's options, `[lock.defaults]`, the bases, the policy, the literal of an
//! attribute or a layer, the call. With `override = "config"`, bases and policy win over literals.

mod address;
mod error;
mod http;
mod layer;
#[cfg(any(feature = "toml", feature = "figment"))]
mod load;
mod model;
mod pattern;
mod resolve;
mod route;
mod shadow;
mod sites;
mod table;
mod template;
mod text;
mod validate;
mod value_type;
#[cfg(feature = "figment")]
mod variables;

use std::collections::HashMap;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error};

/// What the fuzz targets of the workspace call.
#[cfg(feature = "__fuzz")]
pub(crate) mod fuzz {
    pub(crate) use super::pattern::{matches, overlap};
    pub(crate) use super::route::configured as configured_path;
    pub(crate) use super::template::problem as template_problem;
}

#[doc(hidden)]
pub use lock_syntax::nearest;

pub use self::address::{Address, LockAddress, Sentinel};
pub use self::error::{ConfigError, ConfigProblem};
pub use self::http::{
    BusyStatus, HoldUntil, HttpPolicy, Methods, OnDisconnect, OnMissingKey, SafeMethods,
};
pub use self::model::{LockPolicy, LockRoute, LockSection, Overrides};
pub use self::resolve::Policy;
#[doc(hidden)]
pub use self::route::{RouteSegment, route_segments};
pub use self::sites::{SiteProblem, SiteProblems};
#[doc(hidden)]
pub use self::template::{KeyPiece, key_pieces};
#[doc(hidden)]
pub use self::value_type::ValueType;
use crate::error::LockError;
pub use crate::options::values::RestartGuard;
use crate::options::{LockOptions, LockSettings};

/// A checked configuration: the table `[lock]`.
///
/// It implements `Deserialize`, so it can be a field of a program's own configuration; a problem is then an
/// error of the format, with the path in its text. The [module](self) describes the table, and how to read it
/// without passwords in errors.
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
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LockConfig {
    address: Option<LockAddress>,
    restart_guard: Option<RestartGuard>,
    namespace: Option<String>,
    token_ttl: Option<Duration>,
    overrides: Overrides,
    defaults: LockSettings,
    policies: HashMap<String, Policy>,
    /// The policies of a pattern, the closest match first.
    patterns: Vec<Policy>,
    routes: Vec<LockRoute>,
}

/// A file with a table `[lock]`; other tables are ignored.
///
/// For formats whose errors show no part of the file, such as JSON. Read TOML with `LockConfig::from_toml`: the
/// error of `toml::from_str` quotes the wrong line, which may contain a password.
///
/// # Examples
///
/// ```
/// use lock_runtime::policy::LockFile;
///
/// let text = r#"{ "lock": { "namespace": "shop" }, "server": { "port": 80 } }"#;
/// let file: LockFile = serde_json::from_str(text)?;
/// assert_eq!(file.lock.namespace(), Some("shop"));
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[non_exhaustive]
pub struct LockFile {
    /// The table.
    pub lock: LockConfig,
}

impl LockConfig {
    /// Reads a file that has a table `[lock]`, of any format; other tables are ignored.
    ///
    /// Works as `serde_json::from_str::<LockFile>(…)` does, but the error is a [`ConfigError`] with each
    /// problem, and shows no password. For TOML, use [`from_toml`](Self::from_toml), which also parses.
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
    /// let text = r#"{ "lock": { "url": "memory:", "defaults": { "wait": "3s" } } }"#;
    /// let config = LockConfig::from_deserializer(&mut serde_json::Deserializer::from_str(text))?;
    /// assert!(config.address().is_some());
    /// # Ok::<_, lock_runtime::policy::ConfigError>(())
    /// ```
    pub fn from_deserializer<'de, D: Deserializer<'de>>(from: D) -> Result<Self, ConfigError> {
        #[derive(Deserialize)]
        struct File {
            lock: Option<LockSection>,
        }
        let file: File = serde_path_to_error::deserialize(from)
            .map_err(|error| ConfigError::from_serde("", &error))?;
        file.lock.ok_or_else(ConfigError::no_table)?.validate()
    }

    /// Returns the policy of that name: the policy with the name, else the one whose pattern matches most
    /// closely.
    ///
    /// A policy inherits from its bases and the defaults, not from patterns that match its name too.
    ///
    /// # Errors
    ///
    /// [`LockError::UnknownPolicy`] if there is none.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::policy::LockConfig;
    ///
    /// let text = "[lock.policies]\n'*' = {}\n'tenant-*' = {}\ntenant-7 = {}";
    /// let config = LockConfig::from_toml(text)?;
    /// assert_eq!(config.policy("tenant-7")?.name(), "tenant-7");
    /// assert_eq!(config.policy("tenant-8")?.name(), "tenant-*");
    /// assert_eq!(config.policy("order")?.name(), "*");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn policy(&self, name: &str) -> Result<Policy, LockError> {
        let by_pattern = || self.patterns.iter().find(|it| pattern::matches(it.name(), name));
        match self.policies.get(name).or_else(by_pattern) {
            Some(policy) => Ok(policy.clone()),
            None => Err(LockError::UnknownPolicy {
                policy: name.to_owned(),
                detail: self.instead_of(name),
            }),
        }
    }

    fn instead_of(&self, name: &str) -> String {
        /// Few enough to read.
        const SHOWN: usize = 8;
        let mut known: Vec<_> = self.policies().map(|policy| policy.name().to_owned()).collect();
        known.sort_unstable();
        if let Some(near) = lock_syntax::nearest(name, known.iter().map(String::as_str)) {
            return format!("did you mean {near:?}?");
        }
        let more = if known.len() > SHOWN { ", …" } else { "" };
        known.truncate(SHOWN);
        match known.is_empty() {
            true => "the configuration has none; add it under [lock.policies]".to_owned(),
            false => format!("the configuration has {}{more}", known.join(", ")),
        }
    }

    /// Returns all policies, those of a pattern last, otherwise in no order.
    pub fn policies(&self) -> impl Iterator<Item = &Policy> {
        self.policies.values().chain(&self.patterns)
    }

    /// Returns the settings of `[lock.defaults]`.
    #[must_use]
    pub fn defaults(&self) -> LockSettings {
        self.defaults
    }

    /// Returns the routes, in the order of the file.
    #[must_use]
    pub fn routes(&self) -> &[LockRoute] {
        &self.routes
    }

    /// Returns where locks are kept, if the configuration has an address.
    #[must_use]
    pub fn address(&self) -> Option<&LockAddress> {
        self.address.as_ref()
    }

    /// Returns how a quorum treats servers that restarted; every configuration of a quorum sets it.
    #[must_use]
    pub fn restart_guard(&self) -> Option<RestartGuard> {
        self.restart_guard
    }

    /// Returns the prefix of every name.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Returns how long fencing counters are kept after their last use, if it is set: see
    /// [`LockClientBuilder::token_ttl`](crate::LockClientBuilder::token_ttl).
    #[must_use]
    pub fn token_ttl(&self) -> Option<Duration> {
        self.token_ttl
    }

    /// Returns whether the policy or the code wins where they differ.
    #[must_use]
    pub fn overrides(&self) -> Overrides {
        self.overrides
    }

    /// Checks the configuration together with the options of a client, and returns the options with the
    /// defaults.
    pub(crate) fn over(&self, options: LockOptions) -> Result<LockOptions, LockError> {
        for policy in self.policies() {
            policy.settings().apply_to(options).map_err(|error| {
                let path = error::join("lock.policies", policy.name());
                LockError::InvalidOptions(format!(
                    "{path} contradicts the options of the client: {error}"
                ))
            })?;
        }
        self.defaults.apply_to(options)
    }
}

impl<'de> Deserialize<'de> for LockConfig {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        serde_path_to_error::deserialize(from)
            .map_err(|error| ConfigError::from_serde("lock", &error))
            .and_then(LockSection::validate)
            .map_err(D::Error::custom)
    }
}
