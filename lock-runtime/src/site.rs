//! [`LockSite`]: where a `#[distributed_lock]` stands in the source, and what it says. With the feature `sites`,
//! `sites` lists every annotated function of the program.

use crate::options::{LockKind, LockSettings};
use std::fmt;
use std::panic::Location;

/// Where a `#[distributed_lock]` stands and what it says, as far as the compiler knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockSite {
    name: &'static str,
    key: &'static str,
    file: &'static str,
    line: u32,
    policy: Option<&'static str>,
    settings: LockSettings,
}

impl LockSite {
    /// Module path and name of the function.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The key as it was written; several are separated by a comma.
    #[must_use]
    pub const fn key(&self) -> &'static str {
        self.key
    }

    /// The source file.
    #[must_use]
    pub const fn file(&self) -> &'static str {
        self.file
    }

    /// The line of the attribute; of those that stand on one function, that of the first.
    #[must_use]
    pub const fn line(&self) -> u32 {
        self.line
    }

    /// The name of the policy.
    #[must_use]
    pub const fn policy(&self) -> Option<&'static str> {
        self.policy
    }

    /// The kind of lock, where the attribute names it.
    #[must_use]
    pub const fn kind(&self) -> Option<LockKind> {
        self.settings.kind
    }

    /// What the attribute says in words and literals. What it says in expressions is known only when
    /// the function is called.
    #[must_use]
    pub const fn settings(&self) -> LockSettings {
        self.settings
    }
}

impl fmt::Display for LockSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}:{})", self.name, self.file, self.line)
    }
}

/// Where a lock is asked for: an annotated function, or the line of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CallSite {
    Attribute(&'static LockSite),
    Call(&'static Location<'static>),
}

impl CallSite {
    /// The line that calls the function that calls this, and so on as `#[track_caller]` has it.
    #[track_caller]
    pub(crate) fn caller() -> Self {
        Self::Call(Location::caller())
    }
}

impl fmt::Display for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attribute(site) => fmt::Display::fmt(site, f),
            Self::Call(location) => fmt::Display::fmt(location, f),
        }
    }
}

/// How expansions describe an attribute, in one constant expression.
#[doc(hidden)]
impl LockSite {
    #[must_use]
    pub const fn new(name: &'static str, key: &'static str, file: &'static str, line: u32) -> Self {
        Self { name, key, file, line, policy: None, settings: LockSettings::UNSET }
    }

    #[must_use]
    pub const fn with(self, policy: Option<&'static str>, settings: LockSettings) -> Self {
        Self { policy, settings, ..self }
    }
}

/// An entry of the register.
#[cfg(feature = "sites")]
#[doc(hidden)]
#[derive(Debug)]
pub struct Registered(pub &'static LockSite);

#[cfg(feature = "sites")]
inventory::collect!(Registered);

/// Every `#[distributed_lock]` that is linked into the program, called or not, in the order of file
/// and line.
///
/// A generic function counts once. A crate of which the program uses nothing is not linked in, and its
/// functions are not listed.
///
/// # Examples
///
/// ```
/// use lock_runtime::{LockError, distributed_lock};
///
/// #[distributed_lock(key = "order:{id}", kind = fair)]
/// async fn settle(id: u64) -> Result<(), LockError> {
///     Ok(())
/// }
///
/// let site = lock_runtime::site::sites().find(|site| site.name().ends_with("::settle")).unwrap();
/// assert_eq!(site.key(), "order:{id}");
/// assert_eq!(site.kind(), Some(lock_runtime::LockKind::Fair));
/// ```
#[cfg(feature = "sites")]
pub fn sites() -> impl Iterator<Item = &'static LockSite> {
    let mut sites: Vec<_> = inventory::iter::<Registered>().map(|entry| entry.0).collect();
    sites.sort_unstable_by_key(|site| (site.file, site.line));
    sites.into_iter()
}
