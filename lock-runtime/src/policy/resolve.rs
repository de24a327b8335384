//! [`Policy`]: the settings of one name in a configuration, inherited ones included.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use super::http::HttpPolicy;
use super::model::Overrides;
use crate::observe::{Label, LayerLabel};
use crate::options::LockSettings;
use crate::site::{CallSite, LayerSite};

/// A policy of a [`LockConfig`](super::LockConfig), including inherited settings. Cheap to clone.
///
/// [`LockClient::policy`](crate::LockClient::policy) returns it from the configuration in effect. A reload does not
/// change it; ask the client again for the policy of the new configuration.
///
/// # Examples
///
/// ```
/// use lock_runtime::options::LockSettings;
/// use lock_runtime::policy::LockConfig;
/// use lock_runtime::{LockClient, Wait};
/// use std::time::Duration;
///
/// let config = LockConfig::from_toml(
///     r#"
///     [lock.defaults]
///     wait = "3s"
///     [lock.policies."tenant-*"]
///     max_hold = "5m"
///     "#,
/// )?;
/// let client = LockClient::builder().config(config).in_memory()?;
///
/// let policy = client.policy("tenant-7")?;
/// assert_eq!(policy.name(), "tenant-*");
/// assert_eq!(policy.settings().wait, Some(Wait::UpTo(Duration::from_secs(3))));
/// // A literal in the code has the last word.
/// let literals = LockSettings::default().wait(Wait::Never);
/// assert_eq!(policy.resolve(literals).wait, Some(Wait::Never));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Policy(Arc<Resolved>);

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Resolved {
    pub(super) name: Label,
    pub(super) key: Option<String>,
    /// The settings of the policy and its bases.
    pub(super) own: LockSettings,
    /// The settings of `[lock.defaults]`.
    pub(super) defaults: LockSettings,
    /// The HTTP settings of the policy, its bases and the defaults.
    pub(super) http: HttpPolicy,
    /// The same without the defaults.
    pub(super) own_http: HttpPolicy,
    pub(super) enforce: u8,
    pub(super) overrides: Overrides,
}

impl Policy {
    pub(super) fn new(resolved: Resolved) -> Self {
        Self(Arc::new(resolved))
    }

    /// Returns the name in the configuration: for a pattern, the pattern. The number of names is the number of
    /// policies, so it may label metrics.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name.as_str()
    }

    /// Logs that a body runs without its lock, at most once a second.
    #[doc(hidden)]
    pub fn log_not_enforced(
        &self,
        site: &'static Location<'static>,
        error: &(dyn std::error::Error + 'static),
    ) {
        let label = self.label().at(CallSite::Call(site)).enforced(false);
        label.not_enforced("", error);
    }

    pub(crate) fn label(&self) -> Label {
        self.0.name.clone()
    }

    /// Returns the label of the locks of a layer that follows this policy.
    #[doc(hidden)]
    #[must_use]
    pub fn layer_label(&self, site: &'static LayerSite) -> LayerLabel {
        LayerLabel::of(self.label(), site)
    }

    /// Returns the key template, for layers.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// Returns the settings of the policy, else of its bases, else of `[lock.defaults]`.
    #[must_use]
    pub fn settings(&self) -> LockSettings {
        self.0.own.or(self.0.defaults)
    }

    /// Returns the settings of the policy and its bases, without the defaults.
    pub(crate) fn own(&self) -> LockSettings {
        self.0.own
    }

    /// Returns the settings for code with `literals`: these win, unless the configuration has `override =
    /// "config"`; then they win over `[lock.defaults]` only.
    #[must_use]
    pub fn resolve(&self, literals: LockSettings) -> LockSettings {
        match self.0.overrides {
            Overrides::Literals => literals.or(self.settings()),
            Overrides::Config => self.0.own.or(literals).or(self.0.defaults),
        }
    }

    /// Returns the settings for layers that lock requests.
    #[must_use]
    pub fn http(&self) -> &HttpPolicy {
        &self.0.http
    }

    /// As [`resolve`](Self::resolve), for the settings of layers that lock requests.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::policy::{BusyStatus, HttpPolicy, LockConfig};
    ///
    /// let config = LockConfig::from_toml("[lock.policies.a]\nhttp = { busy = 423 }")?;
    /// let mut literals = HttpPolicy::default();
    /// literals.busy = Some(BusyStatus::Conflict);
    /// let resolved = config.policy("a")?.resolve_http(&literals);
    /// assert_eq!(resolved.busy, Some(BusyStatus::Conflict));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn resolve_http(&self, literals: &HttpPolicy) -> HttpPolicy {
        match self.0.overrides {
            Overrides::Literals => literals.clone().or(&self.0.http),
            Overrides::Config => self.0.own_http.clone().or(literals).or(&self.0.http),
        }
    }

    /// Returns the percentage of calls on which the lock is enforced. The remaining calls run anyway and only
    /// record what would have blocked them.
    ///
    /// Such a call acquires the lock if it is free, so that other calls see it held. It never waits for another
    /// holder, and at most 50 ms for the store; after an overdue answer it does not ask the store at all until
    /// a background probe is answered: see [`AnyLock::shadow_lock`](crate::AnyLock::shadow_lock). An invalid
    /// name, options that contradict each other, a lost hold and `max_hold` do not stop it either, and an
    /// unconfirmed release does not delay it. The log reports each of these.
    ///
    /// A missing client or an unknown policy is still an error, because then the percentage is unknown. For a
    /// function that names its guard (`guard = hold`) the lock is always enforced. A handler runs without the
    /// lock if it was busy: let it take an `Option<HeldLock>`, because the extractor `HeldLock` of the crate
    /// `lock-tower` then answers with 500.
    #[must_use]
    pub fn enforce(&self) -> u8 {
        self.0.enforce
    }

    /// Decides for one call whether the lock is enforced: always at 100, never at 0, else at random with the
    /// thread's [`fastrand`] generator. Call it once for each call.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_runtime::policy::LockConfig;
    /// let text = "[lock.policies]\nold = {}\nnew = { enforce = 0 }";
    /// let config = LockConfig::from_toml(text)?;
    /// assert!(config.policy("old")?.is_enforced_now());
    /// assert!(!config.policy("new")?.is_enforced_now());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_enforced_now(&self) -> bool {
        match self.0.enforce {
            0 => false,
            100.. => true,
            share => fastrand::u8(0..100) < share,
        }
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
