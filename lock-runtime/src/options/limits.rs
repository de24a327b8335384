//! Bounds of what may be asked for.

use std::ops::RangeInclusive;
use std::time::Duration;

pub use lock_syntax::{MAX_LEASE, MAX_MULTI_NAMES, MIN_LEASE};

/// The lease of [`LockOptions::default`](crate::LockOptions::default): Redisson's watchdog time-out.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(30);

/// How long a fencing counter outlives its last use unless told otherwise.
pub(crate) const DEFAULT_TOKEN_TTL: Duration = Duration::from_secs(60 * 60 * 24);

/// How long a client may have fencing counters outlive their last use: longer than most leases, and than a
/// clock is set back by.
pub(crate) const TOKEN_TTL: RangeInclusive<Duration> =
    Duration::from_secs(60 * 60)..=Duration::from_secs(30 * 24 * 60 * 60);
