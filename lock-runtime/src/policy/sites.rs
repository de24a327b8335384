//! Checks annotated functions against a configuration before any lock is acquired.

use std::fmt;

use super::{LockAddress, LockConfig};
use crate::options::{LockKind, LockOptions};
use crate::site::LockSite;

/// An annotated function that does not match a configuration.
///
/// # Examples
///
/// ```
/// use lock_runtime::policy::{LockConfig, SiteProblem};
/// use lock_runtime::site::LockSite;
///
/// fn report(config: &LockConfig, sites: &[LockSite]) -> Result<(), Vec<SiteProblem>> {
///     match config.check(sites) {
///         problems if problems.is_empty() => Ok(()),
///         problems => Err(problems),
///     }
/// }
/// assert!(report(&LockConfig::default(), &[]).is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteProblem {
    site: LockSite,
    message: String,
}

impl SiteProblem {
    /// Returns the annotated function.
    #[must_use]
    pub fn site(&self) -> &LockSite {
        &self.site
    }

    /// Returns what is wrong with it.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for SiteProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { site, message } = self;
        write!(f, "{}:{}: {} {message}", site.file(), site.line(), site.name())
    }
}

impl std::error::Error for SiteProblem {}

impl LockConfig {
    /// Reports every annotated function that names an unknown policy, or whose literals contradict its policy
    /// or the defaults.
    ///
    /// Expressions of an attribute are known only when it runs, and not checked here. If a client has options
    /// of its own, its locks may contradict those as well.
    #[must_use]
    pub fn check<'a>(&self, sites: impl IntoIterator<Item = &'a LockSite>) -> Vec<SiteProblem> {
        let problem =
            |site: &LockSite| self.misfit(site).map(|message| SiteProblem { site: *site, message });
        sites.into_iter().filter_map(problem).collect()
    }

    fn misfit(&self, site: &LockSite) -> Option<String> {
        let (settings, whose) = match site.policy() {
            None => (site.settings().or(self.defaults), "[lock.defaults]".to_owned()),
            Some(name) => match self.policy(name) {
                Ok(policy) => (policy.resolve(site.settings()), format!("its policy {name:?}")),
                Err(error) => return Some(format!("cannot be locked: {error}")),
            },
        };
        if let Err(error) = settings.apply_to(LockOptions::default()) {
            return Some(format!("contradicts {whose}: {error}"));
        }
        let kind = settings.kind.unwrap_or_default();
        let on_quorum = matches!(self.address, Some(LockAddress::Quorum(_)));
        (on_quorum && kind != LockKind::Mutex)
            .then(|| format!("asks for the kind {kind}, and a quorum keeps mutexes only"))
    }
}
