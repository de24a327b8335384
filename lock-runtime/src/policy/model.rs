//! The table `[lock]` as serde reads it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::RestartGuard;
use super::address::{self, Address, Sentinel};
use super::http::{HoldUntil, HttpPolicy, Methods};
use super::table::{self, table};
use super::text;
use crate::options::{
    Lease, LockKind, LockSettings, OnLost, OnReleaseLost, Replicas, Wait, for_each_setting,
};

/// The table `[lock]` as written, before [`validate`](Self::validate).
///
/// Most programs read a [`LockConfig`](super::LockConfig), the validated form. This type is for configurations
/// that are built in code.
///
/// # Examples
///
/// ```
/// use lock_runtime::Wait;
/// use lock_runtime::policy::{LockPolicy, LockSection};
///
/// let mut checkout = LockPolicy::default();
/// checkout.wait = Some(Wait::Never);
/// let mut section = LockSection::default();
/// section.policies.insert("checkout".to_owned(), checkout);
/// let config = section.validate()?;
/// assert_eq!(config.policy("checkout")?.settings().wait, Some(Wait::Never));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[non_exhaustive]
pub struct LockSection {
    /// One server, or `memory:`.
    pub url: Option<Address>,
    /// Nodes of a Redis Cluster.
    #[serde(deserialize_with = "address::list")]
    pub cluster: Option<Vec<Address>>,
    /// Sentinels and the master that they watch.
    pub sentinel: Option<Sentinel>,
    /// Independent servers, a majority of which keeps each lock.
    #[serde(deserialize_with = "address::list")]
    pub quorum: Option<Vec<Address>>,
    /// How long a server of the quorum does not count after it started: `"30s"`, the longest lease in use, or
    /// `"none"` where no server forgets a lock in a restart. A quorum requires it.
    #[serde(deserialize_with = "text::restart_guard")]
    pub restart_guard: Option<RestartGuard>,
    /// The prefix of every name.
    pub namespace: Option<String>,
    /// How long fencing counters are kept after their last use: `"1h"` at least.
    #[serde(deserialize_with = "text::duration")]
    pub token_ttl: Option<Duration>,
    /// Whether the policy or the code wins where they differ.
    #[serde(rename = "override")]
    pub overrides: Overrides,
    /// The settings of every lock that has no others.
    pub defaults: LockPolicy,
    /// The bases of policies.
    #[serde(deserialize_with = "table::by_name")]
    pub base: BTreeMap<String, LockPolicy>,
    /// Policies by name or, with `*`, for all names of a pattern.
    #[serde(deserialize_with = "table::by_name")]
    pub policies: BTreeMap<String, LockPolicy>,
    /// Which requests lock.
    #[serde(deserialize_with = "table::routes")]
    pub routes: Vec<LockRoute>,
}

table!(LockSection, "the table [lock]");

macro_rules! lock_policy {
    ($($(#[$doc:meta])* $name:ident: $type:ty, $reader:tt;)*) => {
        /// One table of `[lock.policies]`, of `[lock.base]`, or `[lock.defaults]`.
        ///
        /// A field that is `None` is inherited.
        ///
        /// # Examples
        ///
        /// ```
        /// use lock_runtime::policy::LockPolicy;
        /// use lock_runtime::{LockKind, Wait};
        ///
        /// let policy: LockPolicy = toml::from_str("kind = 'fair'\nwait = 'none'")?;
        /// assert_eq!(policy.kind, Some(LockKind::Fair));
        /// assert_eq!(policy.settings().wait, Some(Wait::Never));
        /// # Ok::<_, toml::de::Error>(())
        /// ```
        #[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
        #[serde(deny_unknown_fields, default, remote = "Self")]
        #[non_exhaustive]
        pub struct LockPolicy {
            /// The entry of `[lock.base]` that is the base of this.
            pub base: Option<String>,
            /// The key template, for layers: `"order:{path.id:u64}"`.
            pub key: Option<String>,
            $($(#[$doc])* #[serde(deserialize_with = $reader)] pub $name: Option<$type>,)*
            /// The settings for layers.
            pub http: HttpPolicy,
            /// Percentage of calls on which the lock is enforced: see [`Policy::enforce`](super::Policy::enforce).
            #[serde(deserialize_with = "text::enforce")]
            pub enforce: Option<u8>,
        }

        impl LockPolicy {
            /// Returns the settings of the lock itself.
            #[must_use]
            pub fn settings(&self) -> LockSettings {
                LockSettings { $($name: self.$name,)* }
            }
        }
    };
}

for_each_setting!(lock_policy);

table!(LockPolicy, "a table of lock settings");

/// One entry of `[[lock.routes]]`: requests, and the policy of their lock.
///
/// Entries may share a path: a request goes to the first of them that locks its method. Loading refuses an
/// entry to which earlier ones leave no request, and one that lists a method which an earlier entry of its path
/// lists.
///
/// # Examples
///
/// ```
/// use lock_runtime::policy::LockRoute;
///
/// let route: LockRoute = toml::from_str(
///     "methods = ['POST']\npath = '/orders/{id}/pay'\npolicy = 'checkout'",
/// )?;
/// assert_eq!(route.path, "/orders/{id}/pay");
/// assert_eq!(route.hold, None);
/// # Ok::<_, toml::de::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
#[non_exhaustive]
pub struct LockRoute {
    /// The methods; by default those of the policy.
    #[serde(default)]
    pub methods: Option<Methods>,
    /// The route's path, such as `/orders/{id}`, or `/admin/{*rest}` for all paths below `/admin`. It has every
    /// `{path.…}` of the key.
    pub path: String,
    /// The policy's name.
    pub policy: String,
    /// The key template, in place of the policy's. If neither has one, the layer needs a key in code.
    #[serde(default)]
    pub key: Option<String>,
    /// When the lock is released, in place of the policy's setting.
    #[serde(default)]
    pub hold: Option<HoldUntil>,
}

table!(LockRoute, "a table with a path and a policy");

/// Whether a policy or a literal of an attribute or a layer wins where they differ.
///
/// # Examples
///
/// ```
/// use lock_runtime::options::LockSettings;
/// use lock_runtime::policy::LockConfig;
/// use lock_runtime::Wait;
///
/// let text = "[lock]\noverride = 'config'\n[lock.policies.checkout]\nwait = 'none'";
/// let config = LockConfig::from_toml(text)?;
/// let literals = LockSettings::default().wait(Wait::Forever);
/// assert_eq!(config.policy("checkout")?.resolve(literals).wait, Some(Wait::Never));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Overrides {
    /// The literal.
    #[default]
    Literals,
    /// The policy and its bases; over `[lock.defaults]`, the literal still wins.
    Config,
}
