//! Fencing: the order of holds ([`FencingToken`]), and a [`FenceGate`] by which a resource refuses the late
//! write of an earlier holder as a [`StaleToken`].
// S-23, S-24.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that grows with every outermost hold of one name, whoever takes it.
///
/// It is minted in the script that takes the lock, as `max(previous + 1, server time in µs)`, so it
/// keeps growing when the store lost its data. Hand it to the resource with every write; the
/// resource refuses anything below the highest it has seen ([`FenceGate`], or in SQL
/// `UPDATE … SET fence = $1 WHERE id = $2 AND fence <= $1`). That, and not the lease, is what stops
/// the late write of a process that was paused past its lease (Kleppmann, *How to do distributed
/// locking*, 2016).
///
/// # Beside Redisson
///
/// Redisson's `RFencedLock` counts with the same counter, by one from where that is. After the first hold
/// of a Rust client Java's `lockAndGetToken` therefore goes on at about 1.8 × 10^15, the time in µs, and not at
/// 5 after 4: still in order, but in no 32-bit number. Columns, fields and message formats for tokens need 64
/// bits (`BIGINT`, `long`, `i64`), and JavaScript reads them exactly up to 2^53, about 9 × 10^15.
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

impl FencingToken {
    /// Wraps a number that came over a wire or out of a database.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
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

/// The resource's side of fencing: lets a token pass unless a higher one has passed before.
///
/// Equal tokens pass: they are the same hold. This gate lives in memory; a resource that outlives
/// its process keeps the highest token beside its data (see [`FencingToken`]).
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
    /// A gate that has seen no token.
    #[must_use]
    pub const fn new() -> Self {
        Self { highest: AtomicU64::new(0) }
    }

    /// Lets `token` pass, and remembers it.
    ///
    /// The check and the write it protects must be one step for the resource: hold the resource's
    /// own mutex around both, or do both in one statement.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] if a higher token has passed before; nothing is remembered then.
    pub fn admit(&self, token: FencingToken) -> Result<(), StaleToken> {
        let highest = self.highest.fetch_max(token.0, Ordering::AcqRel);
        if token.0 < highest {
            return Err(StaleToken { token, highest: FencingToken(highest) });
        }
        Ok(())
    }
}

/// A token was refused because a higher one has passed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("fencing token {token} is stale: {highest} has passed already")]
pub struct StaleToken {
    token: FencingToken,
    highest: FencingToken,
}

impl StaleToken {
    /// The refused token.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// The highest token seen by the gate.
    #[must_use]
    pub fn highest(&self) -> FencingToken {
        self.highest
    }
}
