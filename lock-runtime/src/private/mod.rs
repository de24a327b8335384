//! The functions that expansions of `#[distributed_lock]` call. Not part of the public API.
//!
//! An expansion is one call of [`v1::locked`] or [`v1::locked_or_skip`], or, of a plain function, of `v1::called` or
//! `v1::called_or_skip`; all policy is here. The number in the
//! path grows when an expansion of an older `lock-macros` would no longer compile against it.

mod body;
mod call;
#[cfg(feature = "blocking")]
mod called;
mod returns;
mod spec;
mod state;

/// The items that an expansion of this version names.
pub mod v1 {
    pub use super::body::{
        Body, Make, Plain, Seeing, StartContext, View, future, instead, never, plain, plain_or,
        whole, with_guard, with_guard_or,
    };
    pub use super::call::{Locked, locked, locked_or_skip};
    #[cfg(feature = "blocking")]
    pub use super::called::{
        BlockingBody, Function, called, called_or_skip, function, function_or, function_with_guard,
        function_with_guard_or,
    };
    pub use super::returns::{ErrorReturn, SkipReturn, SkippedValue};
    pub use super::spec::{AsClient, CallSpec, UNSET, WATCHDOG, semaphore};
    #[cfg(feature = "sites")]
    pub use crate::site::Registered;
    #[doc(hidden)]
    pub use crate::{__lock_site as site, __register_lock_site as register_site};
    #[cfg(feature = "sites")]
    pub use inventory;
}

/// The place of an attribute as a `&'static LockSite`.
#[doc(hidden)]
#[macro_export]
macro_rules! __lock_site {
    ($name:literal, $key:literal, $policy:expr $(, $setting:ident = $value:expr)*) => {{
        static SITE: $crate::site::LockSite = $crate::site::LockSite::new(
            ::core::concat!(::core::module_path!(), "::", $name),
            $key,
            ::core::file!(),
            ::core::line!(),
        )
        .with($policy, {
            #[allow(unused_mut, reason = "an attribute may leave all settings out")]
            let mut settings = $crate::private::v1::UNSET;
            $(settings.$setting = ::core::option::Option::Some($value);)*
            settings
        });
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
