//! [`Policy`]: what a configuration says of one name, inheritance done.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use super::http::HttpPolicy;
use super::model::Overrides;
use crate::observe::Label;
use crate::options::LockSettings;
use crate::site::CallSite;

/// A policy of a [`LockConfig`](super::LockConfig), with what it inherits. Cheap to clone.
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
    /// What the policy and its bases say.
    pub(super) own: LockSettings,
    /// What `[lock.defaults]` says.
    pub(super) defaults: LockSettings,
    /// What the policy, its bases and the defaults say.
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

    /// The name as the configuration has it: of a pattern, the pattern. There are as few of them as
    /// the configuration has policies, so it may label metrics.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name.as_str()
    }

    /// Logs that a body runs without its lock, once a second at most.
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

    /// The key template, for layers.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// What the policy says, else its bases, else `[lock.defaults]`.
    #[must_use]
    pub fn settings(&self) -> LockSettings {
        self.0.own.or(self.0.defaults)
    }

    /// What the policy and its bases say, without the defaults.
    pub(crate) fn own(&self) -> LockSettings {
        self.0.own
    }

    /// What holds where the code says `literals`: these win, unless the configuration has
    /// `override = "config"`; then they win over `[lock.defaults]` only.
    #[must_use]
    pub fn resolve(&self, literals: LockSettings) -> LockSettings {
        match self.0.overrides {
            Overrides::Literals => literals.or(self.settings()),
            Overrides::Config => self.0.own.or(literals).or(self.0.defaults),
        }
    }

    /// What it says to layers that lock requests.
    #[must_use]
    pub fn http(&self) -> &HttpPolicy {
        &self.0.http
    }

    /// As [`resolve`](Self::resolve), for what is said to layers that lock requests.
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

    /// Percentage of calls on which the lock is enforced. The remaining calls run anyway and only record what would
    /// have blocked them.
    ///
    /// Such a call takes the lock if it is free, so that others count it. It waits for no other holder,
    /// 50 ms at most for the store, and for the store not at all once an answer was overdue, until one
    /// comes in the background: see [`AnyLock::shadow_lock`](crate::AnyLock::shadow_lock). A name that is none, options
    /// that contradict each other, a lost hold and `max_hold` do not stop it either; nor does a release
    /// that the store does not confirm hold it up. The log has each of these.
    ///
    /// What the policy cannot excuse, because it is not known, is a missing client or a policy of another
    /// name. For a function that names its guard (`guard = hold`) the lock is always enforced. A handler runs without
    /// the lock where it could not be had: let it take an `Option<HeldLock>`, since the extractor
    /// `HeldLock` of the crate `lock-tower` answers with 500 then.
    #[must_use]
    pub fn enforce(&self) -> u8 {
        self.0.enforce
    }

    /// Decides for one call whether the lock holds it up: always at 100, never at 0, else by a throw of
    /// the thread's [`fastrand`] generator. Ask once for each call.
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
