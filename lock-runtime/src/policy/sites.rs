//! Checks annotated functions against a configuration before any lock is acquired.

use super::error::{ConfigError, ConfigProblem};
use super::{LockConfig, Policy};
use crate::options::LockKind;
use crate::site::LockSite;

impl LockConfig {
    /// Checks annotated functions against this configuration, such as all [`sites`](crate::site::sites) (feature
    /// `sites`).
    ///
    /// Expressions of an attribute are known only when it runs, and not checked here. If a client has options
    /// of its own, its locks may contradict those as well.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with every function that names an unknown policy, or whose literals contradict its
    /// policy or the defaults. The path of each problem is the line of the attribute.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_runtime::policy::LockConfig;
    /// use lock_runtime::site::LockSite;
    ///
    /// fn report(config: &LockConfig, sites: &[LockSite]) {
    ///     if let Err(error) = config.check_sites(sites) {
    ///         for problem in error.problems() {
    ///             eprintln!("{}: {}", problem.path(), problem.message());
    ///         }
    ///     }
    /// }
    /// # report(&LockConfig::default(), &[]);
    /// ```
    pub fn check_sites<'a>(
        &self,
        sites: impl IntoIterator<Item = &'a LockSite>,
    ) -> Result<(), ConfigError> {
        ConfigError::of(sites.into_iter().filter_map(|site| self.misfit(site)).collect())
    }

    /// Returns the problem of a function with this configuration.
    pub(crate) fn misfit(&self, site: &LockSite) -> Option<ConfigProblem> {
        let message = self.misfit_text(site)?;
        let path = format!("{}:{}", site.file(), site.line());
        Some(ConfigProblem::new(path, format!("{} {message}", site.name())))
    }

    fn misfit_text(&self, site: &LockSite) -> Option<String> {
        let (policy, whose) = match site.policy() {
            None => (Policy::default().or(&self.0.defaults), "[lock.defaults]".to_owned()),
            Some(name) => match self.policy(name) {
                Ok(policy) => (policy, format!("its policy {name:?}")),
                Err(error) => return Some(format!("cannot be locked: {error}")),
            },
        };
        let options = site.options().clone().or(policy.options());
        if let Err(error) = options.check() {
            return Some(format!("contradicts {whose}: {error}"));
        }
        let kind = options.kind.unwrap_or_default();
        (self.0.quorum.is_some() && kind != LockKind::Mutex)
            .then(|| format!("asks for the kind {kind}, and a quorum keeps mutexes only"))
    }
}
