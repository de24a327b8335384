//! What expansions of `#[distributed_lock]` call, and nothing else. Not part of the public API.
//!
//! An expansion is one call of [`locked`] or [`locked_or_skip`]; all policy is here.

mod body;
mod call;
mod returns;
mod wanted;

pub use self::body::{
    Body, Plain, PlainOr, WithGuard, WithGuardOr, future, instead, never, plain, plain_or, whole,
    with_guard, with_guard_or,
};
pub use self::call::{Locked, locked, locked_or_skip};
pub use self::returns::{ErrorReturn, SkipReturn, SkippedValue};
pub use self::wanted::{AsClient, WATCHDOG, Wanted, semaphore};
#[doc(hidden)]
pub use crate::__lock_site as site;

/// The place of an attribute as a `&'static LockSite`.
#[doc(hidden)]
#[macro_export]
macro_rules! __lock_site {
    ($name:literal, $key:literal $(, $with:ident($($value:expr),+))*) => {{
        static SITE: $crate::LockSite = $crate::LockSite::new(
            ::core::concat!(::core::module_path!(), "::", $name),
            $key,
            ::core::file!(),
            ::core::line!(),
        )
        $(.$with($($value),+))*;
        &SITE
    }};
}
