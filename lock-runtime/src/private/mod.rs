//! The functions that expansions of `#[distributed_lock]` call. Not part of the public API.
//!
//! An expansion is one call of [`v1::locked`] or, of a plain function, of `v1::called`; all policy is here. The number in
//! the path grows when an expansion of an older `lock-macros` would no longer compile against it.

mod body;
mod call;
#[cfg(feature = "blocking")]
mod called;
mod returns;
mod spec;
mod state;

/// The items that an expansion of this version names.
pub mod v1 {
    pub use super::body::{View, future, never};
    pub use super::call::{Locked, locked};
    #[cfg(feature = "blocking")]
    pub use super::called::called;
    pub use super::returns::{ErrorReturn, FromLockError, MapErr, NoError, Returns, SkipReturn};
    pub use super::spec::{AsClient, CallSpec, UNSET, WATCHDOG, semaphore};
    #[doc(hidden)]
    pub use crate::{__lock_site as site, __register_lock_site as register_site};
    #[cfg(feature = "sites")]
    pub use inventory;

    use crate::options::LockOptions;
    use crate::site::LockSite;
    #[cfg(feature = "sites")]
    pub use crate::site::register::Registered;

    /// Describes an attribute, in one constant expression.
    pub const fn lock_site(
        [name, key, file]: [&'static str; 3],
        line: u32,
        policy: Option<&'static str>,
        options: LockOptions,
    ) -> LockSite {
        LockSite::new([name, key, file], line, policy, options)
    }
}

/// The place of an attribute as a `&'static LockSite`.
#[doc(hidden)]
#[macro_export]
macro_rules! __lock_site {
    ($name:literal, $key:literal, $policy:expr $(, $option:ident = $value:expr)*) => {{
        static SITE: $crate::site::LockSite = $crate::private::v1::lock_site(
            [::core::concat!(::core::module_path!(), "::", $name), $key, ::core::file!()],
            ::core::line!(),
            $policy,
            {
                #[allow(unused_mut, reason = "an attribute may leave all options out")]
                let mut options = $crate::private::v1::UNSET;
                $(options.$option = ::core::option::Option::Some($value);)*
                options
            },
        );
        $crate::private::v1::register_site!(SITE);
        &SITE
    }};
}

/// Adds a site to the register that the linker builds.
#[cfg(feature = "sites")]
#[doc(hidden)]
#[macro_export]
macro_rules! __register_lock_site {
    ($site:ident) => {
        $crate::private::v1::inventory::submit! { $crate::private::v1::Registered(&$site) }
    };
}

/// Without the feature `sites` there is no register.
#[cfg(not(feature = "sites"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __register_lock_site {
    ($site:ident) => {};
}
