//! Values in lock names: written as text, escaped, and shortened if they are long.
// S-3.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::{net, num};

use hmac_sha256::Hash;
use percent_encoding::percent_encode_byte;

/// Longest text that one [`KeyPart`] puts into a key before it is shortened to a hash.
// S-3.
pub(super) const MAX_PART_BYTES: usize = 128;

/// Replaces the text since `start` with a readable prefix and a 128-bit hash.
///
/// `%~` marks the hash: escaping writes hex digits after every `%`, so no short value can look
/// like a shortened long one.
pub(super) fn shorten(text: &mut String, start: usize) {
    let hash = Hash::hash(&text.as_bytes()[start..]);
    let mut keep = start + MAX_PART_BYTES - 2 - 32;
    while !text.is_char_boundary(keep) {
        keep -= 1;
    }
    // Do not leave half of an escape.
    if let Some(percent) = text[start..keep].rfind('%').map(|at| start + at)
        && keep - percent < 3
    {
        keep = percent;
    }
    text.truncate(keep);
    text.push_str("%~");
    for byte in &hash[..16] {
        // Writing into a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
}

/// A value that may become part of a lock name.
///
/// For a newtype and for an enum without values `#[derive(KeyPart)]` writes the impl. If you write it by hand,
/// delegate to the one field that distinguishes your value from all others. A part must be *stable* (the same
/// value always writes the same text) and *distinct* (different values write different text); that is why
/// floats, `Option`s and types with only `Debug` are not parts.
///
/// Integers, `bool`, `char`, `Uuid`s and IP addresses are written as they are displayed. A `SystemTime`, and with the features
/// `chrono-04`, `jiff-02` and `time-03` the dates and times of these crates, are written as RFC 3339 has them, moments in UTC:
/// one moment has one text, whatever its type and its time zone, as in `2026-11-28T19:55:00.5Z`.
///
/// # Examples
///
/// ```
/// use lock_runtime::key::KeyPartWriter;
/// use lock_runtime::{KeyPart, LockKey};
///
/// struct Account {
///     id: u64,
///     owner: String,
/// }
///
/// impl KeyPart for Account {
///     fn write_key_part(&self, out: &mut KeyPartWriter<'_>) {
///         self.id.write_key_part(out);
///     }
/// }
///
/// let account = Account { id: 42, owner: "Ann".to_owned() };
/// let key = LockKey::builder().text("account:").part(&account).build()?;
/// assert_eq!(key.as_str(), "account:42");
/// # let _ = account.owner;
/// # Ok::<_, lock_runtime::LockError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a lock key",
    note = "integers, `bool`, `char`, strings, `Uuid`, IP addresses and `SystemTime` can, dates of `chrono`, `jiff` and `time` \
            by the features `chrono-04`, `jiff-02` and `time-03`, and with `#[derive(KeyPart)]` a newtype of one of them or \
            an enum without values",
    note = "floats, `Option`s and what only has `Debug` are left out on purpose: rounding, a missing value or a new \
            version would change the name; write the integer or the text that you mean, and lock only if there is a value"
)]
pub trait KeyPart {
    /// Writes the value's text; the writer escapes it.
    fn write_key_part(&self, out: &mut KeyPartWriter<'_>);
}

/// A writer for the text of a [`KeyPart`], which it escapes.
// S-3.
#[derive(Debug)]
pub struct KeyPartWriter<'a> {
    out: &'a mut String,
    raw: bool,
}

impl<'a> KeyPartWriter<'a> {
    pub(super) fn escaping(out: &'a mut String) -> Self {
        Self { out, raw: false }
    }

    pub(super) fn raw(out: &'a mut String) -> Self {
        Self { out, raw: true }
    }

    /// Writes text.
    pub fn write_str(&mut self, text: &str) {
        if self.raw {
            return self.out.push_str(text);
        }
        for c in text.chars() {
            if needs_escape(c) {
                let mut utf8 = [0; 4];
                for byte in c.encode_utf8(&mut utf8).bytes() {
                    self.out.push_str(percent_encode_byte(byte));
                }
            } else {
                self.out.push(c);
            }
        }
    }

    /// Writes a value with its `Display`.
    pub fn write_display(&mut self, value: impl fmt::Display) {
        // Writing into a `String` cannot fail, and a `Display` that fails has written what it could.
        let _ = write!(self, "{value}");
    }
}

impl fmt::Write for KeyPartWriter<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        KeyPartWriter::write_str(self, text);
        Ok(())
    }
}

/// Returns true for the characters that structure keys, hash tags and glob patterns, and for those that are
/// invisible in a log.
// S-3.
fn needs_escape(c: char) -> bool {
    matches!(c, ':' | '{' | '}' | '%' | '*' | '?' | '[' | ']' | '\\')
        || c.is_whitespace()
        || c.is_control()
}

impl KeyPart for str {
    fn write_key_part(&self, out: &mut KeyPartWriter<'_>) {
        out.write_str(self);
    }
}

impl KeyPart for String {
    fn write_key_part(&self, out: &mut KeyPartWriter<'_>) {
        out.write_str(self);
    }
}

macro_rules! displayed_parts {
    ($($ty:ty),*) => {$(
        impl KeyPart for $ty {
            fn write_key_part(&self, out: &mut KeyPartWriter<'_>) {
                out.write_display(self);
            }
        }
    )*};
}

displayed_parts! {
    u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, bool, char, uuid::Uuid,
    num::NonZeroU8, num::NonZeroU16, num::NonZeroU32, num::NonZeroU64, num::NonZeroU128, num::NonZeroUsize,
    num::NonZeroI8, num::NonZeroI16, num::NonZeroI32, num::NonZeroI64, num::NonZeroI128, num::NonZeroIsize,
    net::IpAddr, net::Ipv4Addr, net::Ipv6Addr
}

macro_rules! forwarded_parts {
    ($($ty:ty),*) => {$(
        impl<T: KeyPart + ?Sized> KeyPart for $ty {
            fn write_key_part(&self, out: &mut KeyPartWriter<'_>) {
                (**self).write_key_part(out);
            }
        }
    )*};
}

forwarded_parts!(&T, &mut T, Box<T>, Arc<T>, std::rc::Rc<T>);

impl<T: KeyPart + ToOwned + ?Sized> KeyPart for std::borrow::Cow<'_, T> {
    fn write_key_part(&self, out: &mut KeyPartWriter<'_>) {
        (**self).write_key_part(out);
    }
}
