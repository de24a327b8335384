//! Checks annotated functions against a configuration before any lock is acquired.

use std::fmt;

use super::{LockAddress, LockConfig};
use crate::options::{LockKind, LockOptions};
use crate::site::LockSite;

/// Why a configuration does not fit the program: every annotated function that does not match it, one on a
/// line. `Debug` writes the same lines, for a `main` that returns the error.
///
/// # Examples
///
/// ```
/// use lock_runtime::policy::LockConfig;
/// use lock_runtime::site::LockSite;
///
/// fn report(config: &LockConfig, sites: &[LockSite]) {
///     if let Err(error) = config.check(sites) {
///         for problem in error.problems() {
///             eprintln!("{}: {}", problem.site().name(), problem.message());
///         }
///     }
/// }
/// # report(&LockConfig::default(), &[]);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct SiteProblems {
    problems: Vec<SiteProblem>,
}

impl SiteProblems {
    /// Returns the problems; there is at least one.
    #[must_use]
    pub fn problems(&self) -> &[SiteProblem] {
        &self.problems
    }
}

impl fmt::Display for SiteProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.problems.iter().enumerate() {
            let separator = if at == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for SiteProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for SiteProblems {}

/// An annotated function that does not match a configuration: one of the [`SiteProblems`].
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
    /// Checks annotated functions against this configuration: before it comes into effect, with
    /// [`sites`](crate::site::sites) (feature `sites`). [`LockClient::check_sites`](crate::LockClient) checks
    /// them against the configuration in effect.
    ///
    /// Expressions of an attribute are known only when it runs, and not checked here. If a client has options
    /// of its own, its locks may contradict those as well.
    ///
    /// # Errors
    ///
    /// [`SiteProblems`] with every function that names an unknown policy, or whose literals contradict its
    /// policy or the defaults.
    pub fn check<'a>(
        &self,
        sites: impl IntoIterator<Item = &'a LockSite>,
    ) -> Result<(), SiteProblems> {
        let problem =
            |site: &LockSite| self.misfit(site).map(|message| SiteProblem { site: *site, message });
        let problems: Vec<_> = sites.into_iter().filter_map(problem).collect();
        if problems.is_empty() { Ok(()) } else { Err(SiteProblems { problems }) }
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
