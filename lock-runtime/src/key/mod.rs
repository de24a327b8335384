//! Lock names: [`LockKey`], the [`LockKeyBuilder`] that builds one from values ([`KeyPart`]), and the types
//! that a client accepts as a name ([`IntoLockKey`]).

pub(crate) mod companion;
mod part;
mod time;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

pub use lock_syntax::name::MAX_KEY_BYTES;
use lock_syntax::name::{NameProblem, braces_form_hash_tag};

pub use self::part::{KeyPart, KeyPartWriter};
use self::part::{MAX_PART_BYTES, shorten};
use crate::error::LockError;

/// A checked lock name: UTF-8, 1 to 512 bytes, no control characters, and braces only as one valid Redis hash
/// tag. A name cannot be a key that belongs to another lock: names do not begin with `redisson_lock_token:` and
/// the like, nor end with `:timeout` after a hash tag.
///
/// # Examples
///
/// ```
/// use lock_runtime::LockKey;
///
/// let key = LockKey::new("order:42")?;
/// assert_eq!(key.as_str(), "order:42");
/// // Values that come from outside go in as escaped parts, so that they cannot forge a key.
/// let key = LockKey::builder().text("order:").part("4:2").build()?;
/// assert_eq!(key.as_str(), "order:4%3A2");
/// # Ok::<_, lock_runtime::LockError>(())
/// ```
// S-1.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockKey(Arc<str>);

impl LockKey {
    /// Checks a name and returns it as a key.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidKey`], which reports what is wrong with it.
    pub fn new(name: impl AsRef<str>) -> Result<Self, LockError> {
        Self::in_part(name.as_ref())?.whole()
    }

    /// A name that may still get a namespace, which makes some names valid: check the result with
    /// [`whole`](Self::whole).
    // S-2.
    fn in_part(name: &str) -> Result<Self, LockError> {
        check(name).map_err(|problem| invalid(name, problem))?;
        Ok(Self(Arc::from(name)))
    }

    /// Returns the name as it is sent, checked: no other lock uses it as one of its keys.
    pub(crate) fn whole(self) -> Result<Self, LockError> {
        match companion::check(&self.0) {
            Ok(()) => Ok(self),
            Err(problem) => Err(invalid(&self.0, problem)),
        }
    }

    /// Checks a namespace.
    pub(crate) fn check_namespace(namespace: &str) -> Result<(), LockError> {
        Self::new(namespace)?;
        let starts = companion::check(&[namespace, ":"].concat());
        starts.map_err(|problem| invalid(namespace, problem))
    }

    /// Starts a name that is built from fixed text and escaped values.
    pub fn builder() -> LockKeyBuilder {
        LockKeyBuilder { text: String::with_capacity(64), problem: None }
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Adds a namespace: `shop` and `order:42` make `shop:order:42`.
    // S-2.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Result<Self, LockError> {
        Self::new(format!("{namespace}:{}", self.0))
    }

    /// Returns the name of several locks at once in errors and logs, which also identifies them in maps. It is
    /// never sent. Different names make different results: a `+` in them is doubled.
    pub(crate) fn joined<'a>(names: impl IntoIterator<Item = &'a Self>) -> Self {
        let names: Vec<_> = names.into_iter().map(|name| name.0.replace('+', "++")).collect();
        Self(Arc::from(names.join(" + ")))
    }
}

impl fmt::Debug for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl AsRef<str> for LockKey {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl FromStr for LockKey {
    type Err = LockError;

    fn from_str(name: &str) -> Result<Self, LockError> {
        Self::new(name)
    }
}

impl fmt::Display for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn check(name: &str) -> Result<(), String> {
    Err(match lock_syntax::name::check(name) {
        Err(NameProblem::Empty) => "it is empty; give it a name".to_owned(),
        Err(NameProblem::TooLong(bytes)) => format!(
            "it has {bytes} bytes and the limit is {MAX_KEY_BYTES}; long values belong into key parts"
        ),
        Err(NameProblem::Control(control)) => {
            format!("it contains the control character {control:?}; remove or escape it")
        }
        Ok(()) if braces_form_hash_tag(name) => return Ok(()),
        Ok(()) => "its braces form no hash tag; write `{tag}` or leave them out".to_owned(),
    })
}

/// Checks the beginning of a name, whose braces may be closed behind it.
#[cfg(feature = "survey")]
pub(crate) fn check_prefix(prefix: &str) -> Result<(), LockError> {
    match lock_syntax::name::check(prefix) {
        Ok(()) | Err(NameProblem::Empty) => Ok(()),
        Err(_) => check(prefix).map_err(|problem| invalid(prefix, problem)),
    }
}

fn invalid(name: &str, problem: String) -> LockError {
    let mut shown: String = name.chars().take(64).collect();
    if shown.len() < name.len() {
        shown.push('…');
    }
    LockError::InvalidKey { key: shown, problem }
}

/// A type that names a lock: a [`LockKey`], or text that is checked.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name a lock",
    note = "use a `LockKey`, a `&str` or a `String`; put values into a template: `key = \"order:{{id}}\"`"
)]
pub trait IntoLockKey {
    /// Checks and converts. Text that a namespace makes a valid name is accepted; the client checks the
    /// whole name.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidKey`] if it is not a valid name.
    fn into_lock_key(self) -> Result<LockKey, LockError>;
}

impl IntoLockKey for LockKey {
    fn into_lock_key(self) -> Result<LockKey, LockError> {
        Ok(self)
    }
}

impl IntoLockKey for &LockKey {
    fn into_lock_key(self) -> Result<LockKey, LockError> {
        Ok(self.clone())
    }
}

macro_rules! text_names_a_lock {
    ($($text:ty),*) => {$(
        impl IntoLockKey for $text {
            fn into_lock_key(self) -> Result<LockKey, LockError> {
                LockKey::in_part(self.as_ref())
            }
        }
    )*};
}

text_names_a_lock!(&str, String, &String);

impl IntoLockKey for Result<LockKey, LockError> {
    fn into_lock_key(self) -> Result<LockKey, LockError> {
        self
    }
}

/// Builds a [`LockKey`] from parts. [`build`](Self::build) reports the first problem.
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `build`"]
pub struct LockKeyBuilder {
    text: String,
    problem: Option<String>,
}

impl LockKeyBuilder {
    /// Adds text unchanged. Put a `:` between two parts: escaped parts never contain one, so different values
    /// cannot make the same key.
    // S-3.
    pub fn text(mut self, text: &str) -> Self {
        self.text.push_str(text);
        self
    }

    /// Adds a value, escaped.
    // S-3.
    pub fn part<P: KeyPart + ?Sized>(mut self, part: &P) -> Self {
        let start = self.text.len();
        part.write_key_part(&mut KeyPartWriter::escaping(&mut self.text));
        if self.text.len() - start > MAX_PART_BYTES {
            shorten(&mut self.text, start);
        }
        self.refuse_empty(start)
    }

    /// Adds a value without escaping, for names that other programs write differently.
    pub fn raw<P: KeyPart + ?Sized>(mut self, part: &P) -> Self {
        let start = self.text.len();
        part.write_key_part(&mut KeyPartWriter::raw(&mut self.text));
        self.refuse_empty(start)
    }

    fn refuse_empty(mut self, start: usize) -> Self {
        if self.text.len() == start && self.problem.is_none() {
            let nth = "a value in it is empty; an empty part would make one key of many things";
            self.problem = Some(nth.to_owned());
        }
        self
    }

    /// Checks the whole name and returns it.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidKey`] if a part was empty or the whole is not a valid name.
    pub fn build(self) -> Result<LockKey, LockError> {
        match self.problem {
            Some(problem) => Err(invalid(&self.text, problem)),
            None => LockKey::new(self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pair(a: &str, b: &str) -> Result<LockKey, LockError> {
        LockKey::builder().text("k:").part(a).text(":").part(b).build()
    }

    #[test]
    fn names_are_checked() {
        for good in ["a", "order:42", "{tag}:x", "a{b}c", "{a}{b}", "ü", &"x".repeat(512)] {
            assert!(LockKey::new(good).is_ok(), "{good}");
        }
        for bad in ["", "a\nb", "a{", "a}b", "a{}b", "{}", "x{y", &"x".repeat(513)] {
            assert!(matches!(LockKey::new(bad), Err(LockError::InvalidKey { .. })), "{bad}");
        }
    }

    #[test]
    fn companions_share_the_slot() {
        let plain = LockKey::new("order:42").unwrap();
        assert_eq!(plain.mutex_channel(), "redisson_lock__channel:{order:42}");
        let tagged = LockKey::new("order:{42}").unwrap();
        assert_eq!(tagged.fence_counter(), "redisson_lock_token:order:{42}");
    }

    #[test]
    fn a_shortened_part_cannot_be_forged() {
        let long = "x".repeat(300);
        let key = LockKey::builder().part(&long).build().unwrap();
        assert_eq!(key.as_str().len(), MAX_PART_BYTES);
        let forged = LockKey::builder().part(key.as_str()).build().unwrap();
        assert_ne!(key, forged);
    }

    #[test]
    fn joined_names_are_injective() {
        let joined = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| LockKey::new(name).unwrap()).collect();
            LockKey::joined(&names)
        };
        assert_eq!(joined(&["a", "b"]).as_str(), "a + b");
        assert_ne!(joined(&["a + b", "c"]), joined(&["a", "b + c"]));
        assert_ne!(joined(&["a +", "b"]), joined(&["a", "+ b"]));
        assert_ne!(joined(&["a + b"]), joined(&["a", "b"]));
    }

    #[test]
    fn empty_parts_are_refused() {
        assert!(matches!(pair("", "b"), Err(LockError::InvalidKey { .. })));
    }

    fn value() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-c:{}%~*?\\[\\] \\\\]{1,6}",
            any::<String>().prop_filter("not empty", |s| !s.is_empty()),
            "[a:%]{120,140}",
            Just("y".repeat(10_000)),
        ]
    }

    proptest! {
        /// Different values never make the same key, and every value makes a valid one.
        // S-3.
        #[test]
        fn keys_are_injective(a in value(), b in value(), c in value(), d in value()) {
            let (left, right) = (pair(&a, &b).unwrap(), pair(&c, &d).unwrap());
            prop_assert_eq!(left == right, (a, b) == (c, d));
        }
    }
}
