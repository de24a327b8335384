//! `#[derive(KeyPart)]`.

#![deny(missing_docs, single_use_lifetimes, explicit_outlives_requirements)]
#![deny(clippy::missing_inline_in_public_items, clippy::implicit_return, clippy::match_ref_pats)]
#![deny(clippy::wildcard_enum_match_arm, clippy::rest_pat_in_fully_bound_structs)]
#![allow(clippy::implicit_return, reason = "what we write here returns without saying so")]
#![forbid(deprecated)]

use std::borrow::Cow;
use std::marker::PhantomData;

use lock_runtime::KeyPart;

#[derive(KeyPart)]
struct Id(u64);

#[derive(KeyPart)]
struct Named<'a> {
    name: &'a str,
}

#[derive(KeyPart)]
struct Generic<'a, T: ToOwned + ?Sized + KeyPart, const N: usize>(Cow<'a, T>)
where
    T::Owned: Clone;

/// A public type.
#[derive(KeyPart, Debug)]
pub struct Of<T> {
    id: u64,
    of: PhantomData<T>,
}

#[derive(KeyPart)]
struct Nested<T>(Box<T>);

#[derive(KeyPart)]
enum One {
    Only,
}

/// A public enum.
#[non_exhaustive]
#[derive(KeyPart, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Many {
    /// A name of its own.
    #[key_part(name = "1st")]
    First,
    /// Kebab.
    SecondToLast,
    /// Nothing in it.
    Tuple(),
    /// Nothing in it.
    Braces {},
}

/// A deprecated type.
#[deprecated = "by Id"]
#[derive(KeyPart)]
#[allow(missing_debug_implementations, reason = "a derived `Debug` names the field")]
pub struct OldId {
    /// A deprecated field.
    #[deprecated = "by Id"]
    pub id: u64,
}

/// An enum with a deprecated variant.
#[derive(KeyPart, Debug)]
pub enum Retired {
    /// The deprecated variant.
    #[deprecated = "by New"]
    Old,
    /// The other one.
    New,
}

/// A type without a size.
#[derive(KeyPart, Debug)]
#[repr(transparent)]
#[must_use]
pub struct Text(str);
