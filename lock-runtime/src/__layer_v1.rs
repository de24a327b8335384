//! What the other crates of the workspace need and no program does. Not part of the public API: these crates have the same
//! version as this one, and the number in the name of the module grows when its items change.

use std::error::Error;
use std::sync::Arc;
#[cfg(feature = "policy")]
use std::sync::Weak;
use std::time::Duration;

#[cfg(feature = "policy")]
pub use lock_syntax::{nearest, template};
#[cfg(feature = "policy")]
use serde::de::DeserializeOwned;
pub use uuid::Uuid;

use crate::acquire::Acquire;
use crate::client::LockClient;
#[cfg(feature = "policy")]
pub use crate::client::config::{Follower, LayerConfig};
use crate::error::LockError;
use crate::guard::LockWatch;
pub use crate::guard::protected::Protected;
use crate::key::LockKey;
pub use crate::observe::label::LayerLabel;
use crate::options::{Lease, LockKind, LockOptions, OnLost, OnReleaseLost, Wait};
#[cfg(feature = "policy")]
pub use crate::policy::effective::EffectivePolicy;
#[cfg(feature = "policy")]
pub use crate::policy::text::Text;
#[cfg(feature = "policy")]
use crate::policy::{ConfigError, ConfigProblem, LockConfig, Policy};
pub use crate::site::LayerSite;
pub use crate::store::client_id;

/// Returns the error of a layer that has no client; `site` names the place.
#[must_use]
pub fn no_client(site: &str) -> LockError {
    LockError::NoClient { site: site.to_owned() }
}

/// Starts an acquire for one call of a layer. If it is not `enforced`, the call runs in any case.
pub fn acquire(
    client: &LockClient,
    label: &LayerLabel,
    kind: LockKind,
    key: LockKey,
    options: Arc<LockOptions>,
    enforced: bool,
) -> Acquire {
    client.acquire_for_layer(label, kind, key, options, enforced)
}

/// Returns [`LockClient::options`] as all handles share them: the same until a reload.
#[must_use]
pub fn shared_options(client: &LockClient) -> Arc<LockOptions> {
    client.shared_options()
}

/// The values of options that are in effect.
#[derive(Debug, Clone, Copy)]
pub struct InEffect {
    /// How long an acquire waits.
    pub wait: Wait,
    /// How long the store keeps the lock.
    pub lease: Lease,
    /// What happens to a body whose hold is lost.
    pub on_lost: OnLost,
    /// What happens if the release finds that the hold was lost.
    pub on_release_lost: OnReleaseLost,
    /// How long a result waits for the release.
    pub release_timeout: Duration,
    /// How long a hold may last.
    pub max_hold: Option<Duration>,
    pub max_waiters: usize,
}

/// Returns the values that are in effect.
#[must_use]
pub fn in_effect(options: &LockOptions) -> InEffect {
    InEffect {
        wait: options.get_wait(),
        lease: options.get_lease(),
        on_lost: options.get_on_lost(),
        on_release_lost: options.get_on_release_lost(),
        release_timeout: options.get_release_timeout(),
        max_hold: options.max_hold,
        max_waiters: options.get_max_waiters(),
    }
}

/// Logs an event of a hold at `warn`, with the fields that every such line has.
pub fn log_warn(watch: &LockWatch, error: Option<&(dyn Error + 'static)>, what: &str) {
    watch.log_warn(error, what);
}

/// As [`log_warn`], at `debug`.
pub fn log_debug(watch: &LockWatch, what: &str) {
    watch.log_debug(what);
}

/// Has `follower` checked before each reload of the client's configuration.
#[cfg(feature = "policy")]
pub fn follow(client: &LockClient, follower: Weak<dyn Follower>) {
    client.follow(follower);
}

/// Returns the client's configuration in effect, as layers see it.
#[cfg(feature = "policy")]
#[must_use]
pub fn layer_config(client: &LockClient) -> Option<Arc<LayerConfig>> {
    client.layer_config()
}

/// Returns a policy of the configuration in effect, as layers see it.
///
/// # Errors
///
/// As [`LockClient::policy`].
#[cfg(feature = "policy")]
pub fn effective_policy(client: &LockClient, name: &str) -> Result<EffectivePolicy, LockError> {
    client.effective_policy(name)
}

/// Returns the options of a lock with `literals` over `policy`.
///
/// # Errors
///
/// [`LockError::InvalidOptions`] if literals and policy contradict each other.
#[cfg(feature = "policy")]
pub fn options_of(
    client: &LockClient,
    policy: &EffectivePolicy,
    literals: LockOptions,
) -> Result<LockOptions, LockError> {
    client.options_of(policy, literals)
}

/// Reads `[[lock.routes]]`.
///
/// # Errors
///
/// [`ConfigError`] with the path of the first one that cannot be read.
#[cfg(feature = "policy")]
pub fn routes<T: DeserializeOwned>(config: &LockConfig) -> Result<Vec<T>, ConfigError> {
    config.routes()
}

/// Returns each table with settings, with its path: the defaults, the bases, the policies.
#[cfg(feature = "policy")]
pub fn tables(config: &LockConfig) -> impl Iterator<Item = (String, &Policy)> {
    config.tables()
}

/// Reads the HTTP settings of one of the [`tables`], without what they inherit.
///
/// # Errors
///
/// [`ConfigError`] with the path of the wrong one.
#[cfg(feature = "policy")]
pub fn http<T: DeserializeOwned + Default>(path: &str, of: &Policy) -> Result<T, ConfigError> {
    LockConfig::http(path, of)
}

/// Makes an error of problems, each with its path, if there are any.
///
/// # Errors
///
/// The error.
#[cfg(feature = "policy")]
pub fn config_problems(
    problems: impl IntoIterator<Item = (String, String)>,
) -> Result<(), ConfigError> {
    let problems = problems.into_iter().map(|(path, message)| ConfigProblem::new(path, message));
    ConfigError::of(problems.collect())
}

/// Returns the duration that a text of a configuration writes.
#[cfg(feature = "policy")]
#[must_use]
pub fn duration(text: &str) -> Option<Duration> {
    crate::policy::span(text)
}

/// Bounds how many pages of names a survey asks the store for, and how many keys the server may check for it. A page visits a
/// few hundred keys, those of other programs included, and a server checks each that may belong to a lock by a script. What is
/// left out then are only locks that no answering client holds or waits for.
#[cfg(feature = "survey")]
pub fn bound_survey(
    survey: crate::admin::Surveying,
    pages: usize,
    checks: usize,
) -> crate::admin::Surveying {
    survey.bounded(pages, checks)
}
