//! What the other crates of the workspace need and no program does. Not part of the public API: these crates have the same
//! version as this one, and the number in the name of the module grows when its items change.

#[cfg(feature = "policy")]
pub use lock_syntax::{nearest, template};
pub use uuid::Uuid;

#[cfg(feature = "policy")]
pub use crate::client::config::{Follower, LayerConfig};
pub use crate::guard::protected::Protected;
pub use crate::observe::label::LayerLabel;
#[cfg(feature = "policy")]
pub use crate::policy::EffectivePolicy;
#[cfg(feature = "policy")]
use crate::policy::{ConfigError, ConfigProblem};
pub use crate::site::LayerSite;
pub use crate::store::client_id;

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
pub fn duration(text: &str) -> Option<std::time::Duration> {
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
