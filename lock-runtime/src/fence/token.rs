//! The order of holds ([`FencingToken`]), and a [`FenceGate`] with which a resource in memory refuses the late write of an
//! earlier holder as a [`StaleToken`].
// S-23, S-24.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that grows with every outermost hold of one name, across all clients and processes.
///
/// The script that acquires the lock mints it as `max(previous + 1, server time in µs)`, so it keeps growing
/// after the store lost its data. Send it to the resource with every write; the resource refuses tokens below
/// the highest it has seen ([`FenceGate`], or in SQL `UPDATE … SET fence = $1 WHERE id = $2 AND fence <= $1`).
/// That check, and not the lease, stops the late write of a process that was paused past its lease (Kleppmann,
/// *How to do distributed locking*, 2016).
///
/// # Beside Redisson
///
/// Redisson's `RFencedLock` uses the same counter, and adds one to its value. After the first hold of a Rust
/// client Java's `lockAndGetToken` therefore continues at about 1.8 × 10^15, the time in µs, and not at 5 after
/// 4: still in order, but too large for 32 bits. Columns, fields and message formats for tokens need 64 bits
/// (`BIGINT`, `long`, `i64`), and JavaScript reads them exactly up to 2^53, about 9 × 10^15.
///
/// With the feature `serde` it is serialized as its number.
///
/// # Examples
///
/// ```
/// use lock_runtime::FencingToken;
///
/// let older = FencingToken::new(7);
/// let newer: FencingToken = "8".parse()?;
/// assert!(older < newer);
/// // SQL drivers want an i64; the token fits until the year 292 000.
/// assert_eq!(i64::try_from(newer.get())?, 8);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
// S-23.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

// Written out, because documentation does not show which feature a derive needs.
#[cfg(feature = "serde")]
impl serde::Serialize for FencingToken {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for FencingToken {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(Self)
    }
}

impl FencingToken {
    /// Wraps a number that came over a wire or from a database.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the last of as many tokens, at least one, of which this is the first.
    pub(crate) fn last_of(self, tokens: u32) -> Self {
        Self(self.0.saturating_add(u64::from(tokens.max(1)) - 1))
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for FencingToken {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        text.parse().map(Self)
    }
}

/// The resource's side of fencing: it admits a token unless it has admitted a higher one before.
///
/// Equal tokens are admitted: they belong to the same hold. This gate lives in memory; a resource that outlives
/// its process stores the highest token with its data (see [`FencingToken`]).
///
/// # Examples
///
/// ```
/// use lock_runtime::fence::FenceGate;
/// use lock_runtime::FencingToken;
///
/// let gate = FenceGate::new();
/// assert!(gate.admit(FencingToken::new(5)).is_ok());
/// assert!(gate.admit(FencingToken::new(5)).is_ok());
/// let refused = gate.admit(FencingToken::new(4)).unwrap_err();
/// assert_eq!(refused.highest(), FencingToken::new(5));
/// ```
#[derive(Debug, Default)]
pub struct FenceGate {
    highest: AtomicU64,
}

impl FenceGate {
    /// Creates a gate that has seen no token.
    #[must_use]
    pub const fn new() -> Self {
        Self { highest: AtomicU64::new(0) }
    }

    /// Admits `token`, and remembers it.
    ///
    /// The check and the write it protects must be one step for the resource: hold the resource's
    /// own mutex around both, or do both in one statement.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] if a higher token was admitted before; the gate then remembers nothing.
    pub fn admit(&self, token: FencingToken) -> Result<(), StaleToken> {
        let highest = self.highest.fetch_max(token.0, Ordering::AcqRel);
        if token.0 < highest {
            return Err(StaleToken { token, highest: FencingToken(highest) });
        }
        Ok(())
    }
}

/// The error for a token that was refused because a higher one was admitted before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("fencing token {token} is stale: {highest} has passed already")]
pub struct StaleToken {
    token: FencingToken,
    highest: FencingToken,
}

impl StaleToken {
    /// Returns the refused token.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// Returns the highest token that the gate has seen.
    #[must_use]
    pub fn highest(&self) -> FencingToken {
        self.highest
    }
}
