//! [`Policy`]: one table of settings, and the contradictions between several of them.

use serde::{Deserialize, Serialize};

use super::error::ConfigProblem;
use super::raw::Raw;
use super::text;
use crate::options::{LockKind, LockOptions, for_each_option};

macro_rules! policy {
    ($($(#[$doc:meta])* $name:ident: $type:ty, $given:ty, $form:tt;)*) => {
        /// One entry of a configuration: a policy, a base, or the defaults. A field that is `None` is inherited.
        ///
        /// [`LockConfig::policy`](super::LockConfig::policy) and [`LockClient::policy`](crate::LockClient::policy)
        /// return one that includes what it inherits.
        ///
        /// # Examples
        ///
        /// ```
        /// use lock_runtime::policy::{LockConfig, Policy};
        /// use lock_runtime::{LockKind, Wait};
        /// use std::time::Duration;
        ///
        /// let mut checkout: Policy = toml::from_str("kind = 'fair'\nwait = '2s'")?;
        /// checkout.max_waiters = Some(100);
        /// let mut config = LockConfig::from_toml("[lock.defaults]\nmax_hold = '5m'")?;
        /// config.insert("checkout", checkout);
        ///
        /// let checkout = config.policy("checkout")?;
        /// assert_eq!(checkout.kind, Some(LockKind::Fair));
        /// assert_eq!(checkout.wait, Some(Wait::UpTo(Duration::from_secs(2))));
        /// assert_eq!(checkout.max_hold, Some(Duration::from_secs(300)));
        /// # Ok::<_, Box<dyn std::error::Error>>(())
        /// ```
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default, expecting = "a table of lock settings")]
        #[non_exhaustive]
        pub struct Policy {
            /// The entry of `[lock.base]` that is the base of this.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub base: Option<String>,
            /// The key template, for layers: `"order:{path.id:u64}"`. Layers check it.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub key: Option<String>,
            /// The kind of the lock: `"mutex"`, `"fair"`, `"read"`, `"write"` or `"semaphore(3)"`.
            #[serde(with = "text::kind", skip_serializing_if = "Option::is_none")]
            pub kind: Option<LockKind>,
            $($(#[$doc])* #[serde(with = $form, skip_serializing_if = "Option::is_none")] pub $name: Option<$type>,)*
            /// The settings for HTTP layers, which read them.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub(super) http: Option<Raw>,
            /// Whether the lock is enforced. With `false` each call runs in any case, and only records what would
            /// have blocked it.
            ///
            /// Such a call acquires the lock if it is free, so that other calls see it held. It never waits for another
            /// holder, and at most 50 ms for the store; after an overdue answer it does not ask the store at all until
            /// a background probe is answered: see [`AnyLock::shadow_lock`](crate::AnyLock::shadow_lock). An invalid
            /// name, options that contradict each other, a lost hold and `max_hold` do not stop it either, and an
            /// unconfirmed release does not delay it. The log reports each of these.
            ///
            /// In `[lock.defaults]` it is that of every policy that does not set it. Locks without a policy are always
            /// enforced.
            ///
            /// A missing client or an unknown policy is still an error, because then it is unknown whether the lock
            /// is enforced. For a function that names its guard (`guard = hold`) without `when` it always is. A
            /// handler runs without the lock if it was busy: let it take an `Option<HeldLock>`, because the extractor
            /// `HeldLock` of the crate `lock-tower` then answers with 500.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub enforce: Option<bool>,
        }

        impl Policy {
            /// Returns the options of the lock itself, and its kind.
            pub(crate) fn options(&self) -> LockOptions {
                LockOptions { kind: self.kind, $($name: self.$name,)* }
            }

            fn has(&self, field: &str) -> bool {
                match field {
                    "kind" => self.kind.is_some(),
                    $(stringify!($name) => self.$name.is_some(),)*
                    _ => false,
                }
            }

            /// Returns this policy with the fields of `lower` where it has none.
            pub(super) fn or(self, lower: &Self) -> Self {
                Self {
                    base: None,
                    key: self.key.or_else(|| lower.key.clone()),
                    kind: self.kind.or(lower.kind),
                    $($name: self.$name.or(lower.$name),)*
                    http: match (self.http, &lower.http) {
                        (Some(http), Some(lower)) => Some(http.or(lower)),
                        (http, lower) => http.or_else(|| lower.clone()),
                    },
                    enforce: self.enforce.or(lower.enforce),
                }
            }
        }
    };
}

for_each_option!(policy);

impl Policy {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A policy, a base or the defaults, and the path to it.
#[derive(Clone)]
pub(super) struct Entry<'a> {
    pub(super) path: String,
    pub(super) policy: &'a Policy,
}

/// Returns the problems of the entries of one policy together, given the nearest first.
pub(super) fn problems(chain: &[Entry<'_>], on_quorum: bool) -> Vec<ConfigProblem> {
    let all = chain.iter().fold(Policy::default(), |all, entry| all.or(entry.policy));
    let kind = all.kind.filter(|kind| on_quorum && *kind != LockKind::Mutex);
    let kind = kind
        .map(|kind| ("kind", format!("{kind} is not supported with lock.quorum; use \"mutex\"")));
    let problem = |(field, problem): (&str, String)| {
        // The nearest entry that has the field; a lease may be the default.
        let entry = chain.iter().find(|entry| entry.policy.has(field)).or(chain.first());
        let path = entry.map_or("", |entry| &entry.path);
        ConfigProblem::new(format!("{path}.{field}"), problem.replace("Wait::None", "\"none\""))
    };
    kind.into_iter().chain(all.options().problem()).map(problem).collect()
}
