//! [`EffectivePolicy`]: a policy of a configuration in effect, with what calls and layers need of it.

use std::panic::Location;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::Policy;
use super::entry::Entry;
use super::error::ConfigError;
use super::raw::Raw;
use crate::observe::Label;
use crate::observe::label::LayerLabel;
use crate::options::LockOptions;
use crate::site::{CallSite, LayerSite};

/// A policy with what it inherits. Cheap to clone.
#[derive(Debug, Clone)]
pub struct EffectivePolicy(Arc<Effective>);

#[derive(Debug)]
struct Effective {
    label: Label,
    /// The options of the policy and its bases, without those of `[lock.defaults]`.
    own: LockOptions,
    policy: Policy,
    /// Where the HTTP settings stand, the nearest first.
    http: Vec<(String, Raw)>,
}

impl EffectivePolicy {
    /// Puts the entries of a policy together, given the nearest first.
    pub(super) fn new(name: &str, own: &[Entry<'_>], defaults: &Entry<'_>) -> Self {
        let merged = own.iter().fold(Policy::default(), |all, entry| all.or(entry.policy));
        let http = own
            .iter()
            .chain([defaults])
            .filter_map(|entry| Some((format!("{}.http", entry.path), entry.policy.http.clone()?)));
        Self(Arc::new(Effective {
            label: Label::new(name),
            own: merged.options(),
            policy: merged.or(defaults.policy),
            http: http.collect(),
        }))
    }

    /// Returns the policy, including what it inherits.
    pub(crate) fn policy(&self) -> &Policy {
        &self.0.policy
    }

    pub(crate) fn label(&self) -> Label {
        self.0.label.clone()
    }

    /// Returns the options of the policy and its bases, without the defaults.
    pub(crate) fn own(&self) -> &LockOptions {
        &self.0.own
    }
}

/// For the layers of the workspace.
impl EffectivePolicy {
    /// Returns the name in the configuration.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.label.as_str()
    }

    /// Returns the key template.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.0.policy.key.as_deref()
    }

    /// Returns the options, including those of the defaults.
    pub fn options(&self) -> LockOptions {
        self.0.policy.options()
    }

    /// Returns whether the lock is enforced.
    #[must_use]
    pub fn is_enforced(&self) -> bool {
        self.0.policy.enforce.unwrap_or(true)
    }

    /// Reads the HTTP settings of each table that has some, the nearest first.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with the path of the wrong one.
    pub fn http<T: DeserializeOwned>(&self) -> Result<Vec<T>, ConfigError> {
        self.0.http.iter().map(|(path, http)| http.read(path, HTTP)).collect()
    }

    /// Returns the label of the locks of a layer that follows this policy.
    #[must_use]
    pub fn layer_label(&self, site: &'static LayerSite) -> LayerLabel {
        LayerLabel::of(self.label(), site)
    }

    /// Logs that a body runs without its lock, at most once a second.
    pub fn log_not_enforced(
        &self,
        site: &'static Location<'static>,
        error: &(dyn std::error::Error + 'static),
    ) {
        let label = self.label().at(CallSite::Call(site)).enforced(false);
        label.not_enforced("", error);
    }
}

/// What HTTP settings are, for errors.
pub(super) const HTTP: &str = "a table such as { busy = 409 }";
