//! [`LockSite`]: the place and the options of a `#[distributed_lock]`. With the feature `sites`, `sites` lists
//! every annotated function of the program.

use std::fmt;
use std::panic::Location;

use parking_lot::Mutex;

use crate::options::LockOptions;

/// The place and the options of a `#[distributed_lock]`, as far as the compiler knows them.
#[derive(Debug, Clone, PartialEq)]
pub struct LockSite {
    name: &'static str,
    key: &'static str,
    file: &'static str,
    line: u32,
    policy: Option<&'static str>,
    options: LockOptions,
}

impl LockSite {
    pub(crate) const fn new(
        [name, key, file]: [&'static str; 3],
        line: u32,
        policy: Option<&'static str>,
        options: LockOptions,
    ) -> Self {
        Self { name, key, file, line, policy, options }
    }

    /// Returns the module path and name of the function.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the key as it was written; several are separated by a comma.
    #[must_use]
    pub const fn key(&self) -> &'static str {
        self.key
    }

    /// Returns the source file.
    #[must_use]
    pub const fn file(&self) -> &'static str {
        self.file
    }

    /// Returns the line of the attribute; if one function has several, the line of the first.
    #[must_use]
    pub const fn line(&self) -> u32 {
        self.line
    }

    /// Returns the name of the policy.
    #[must_use]
    pub const fn policy(&self) -> Option<&'static str> {
        self.policy
    }

    /// Returns the options that the attribute has as words and literals. Its expressions are known only when
    /// the function is called.
    pub const fn options(&self) -> &LockOptions {
        &self.options
    }
}

impl fmt::Display for LockSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}:{})", self.name, self.file, self.line)
    }
}

/// The site of a lock: an annotated function, a layer, or the line of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CallSite {
    Attribute(&'static LockSite),
    Layer(&'static LayerSite),
    Call(&'static Location<'static>),
}

impl CallSite {
    /// Returns the line that calls the function that calls this, and so on as `#[track_caller]` defines it.
    #[track_caller]
    pub(crate) fn caller() -> Self {
        Self::Call(Location::caller())
    }

    /// Returns the key template of the lock, if there may be one: where an attribute has an expression or several keys,
    /// this is their text.
    #[cfg(feature = "lock-order")]
    pub(crate) fn template(self) -> Option<&'static str> {
        match self {
            Self::Attribute(site) => Some(site.key),
            Self::Layer(site) => site.template,
            Self::Call(_) => None,
        }
    }
}

impl fmt::Display for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attribute(site) => fmt::Display::fmt(site, f),
            Self::Layer(LayerSite { location, .. }) | Self::Call(location) => {
                fmt::Display::fmt(location, f)
            }
        }
    }
}

/// Where a layer was made, and its key template. There is one for each place and template; it lives as long as the
/// process, so that a lock's label can refer to it.
#[derive(Debug)]
#[doc(hidden)]
pub struct LayerSite {
    location: &'static Location<'static>,
    /// `None` if the lock order, which alone uses it, is not compiled.
    template: Option<&'static str>,
}

impl LayerSite {
    /// Returns the site of that place and template.
    #[must_use]
    pub fn of(location: &'static Location<'static>, template: Option<&str>) -> &'static Self {
        static KNOWN: Mutex<Vec<&'static LayerSite>> = Mutex::new(Vec::new());
        let template = template.filter(|_| cfg!(feature = "lock-order"));
        let mut known = KNOWN.lock();
        let is_it = |site: &&&Self| site.location == location && site.template == template;
        if let Some(site) = known.iter().find(is_it) {
            return site;
        }
        let template = template.map(|template| &*Box::leak(Box::<str>::from(template)));
        let site: &Self = Box::leak(Box::new(Self { location, template }));
        known.push(site);
        site
    }

    /// Returns where the layer was made.
    #[must_use]
    pub const fn location(&self) -> &'static Location<'static> {
        self.location
    }
}

/// The register that the linker builds.
#[cfg(feature = "sites")]
pub(crate) mod register {
    use super::LockSite;

    /// An entry of the register.
    #[derive(Debug)]
    pub struct Registered(pub &'static LockSite);

    inventory::collect!(Registered);
}

/// Returns every `#[distributed_lock]` that is linked into the program, called or not, ordered by file and
/// line.
///
/// A generic function counts once. A crate that the program does not use is not linked, and its functions are
/// not listed.
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
/// assert_eq!(site.options().kind, Some(lock_runtime::LockKind::Fair));
/// ```
#[cfg(feature = "sites")]
pub fn sites() -> impl Iterator<Item = &'static LockSite> {
    let mut sites: Vec<_> =
        inventory::iter::<register::Registered>().map(|entry| entry.0).collect();
    sites.sort_unstable_by_key(|site| (site.file, site.line));
    sites.into_iter()
}
