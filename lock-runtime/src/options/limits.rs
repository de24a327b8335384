//! Bounds and defaults of options.

use std::ops::RangeInclusive;
use std::time::Duration;

pub use lock_syntax::{MAX_LEASE, MAX_MULTI_NAMES, MIN_LEASE};

/// The lease of [`LockOptions::default`](crate::LockOptions::default): Redisson's watchdog timeout.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(30);

/// Default time that a fencing counter outlives its last use.
pub(crate) const DEFAULT_TOKEN_TTL: Duration = Duration::from_secs(60 * 60 * 24);

/// Bounds of the time that fencing counters outlive their last use: longer than most leases, and than most
/// clock corrections.
pub(crate) const TOKEN_TTL: RangeInclusive<Duration> =
    Duration::from_secs(60 * 60)..=Duration::from_secs(30 * 24 * 60 * 60);
