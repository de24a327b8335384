//! Bounds and defaults of options.

use std::ops::RangeInclusive;
use std::time::Duration;

pub use lock_syntax::{MAX_LEASE, MAX_MULTI_NAMES, MIN_LEASE};

/// Default time to wait for a lock. A caller that may wait forever says so.
// S-18.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(30);

/// Default time to wait for a release after a body.
// S-20.
pub const DEFAULT_RELEASE_TIMEOUT: Duration = Duration::from_millis(250);

/// Default lease, renewed by the watchdog: Redisson's watchdog timeout.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(30);

/// Default time that a fencing counter outlives its last use.
pub(crate) const DEFAULT_TOKEN_TTL: Duration = Duration::from_secs(60 * 60 * 24);

/// Bounds of the time that fencing counters outlive their last use: longer than most leases, and than most
/// clock corrections.
pub(crate) const TOKEN_TTL: RangeInclusive<Duration> =
    Duration::from_secs(60 * 60)..=Duration::from_secs(30 * 24 * 60 * 60);

/// Bounds of the times of a client's settings: shorter ones would overload the store, longer ones are mistakes.
pub(crate) const SETTINGS: RangeInclusive<Duration> =
    Duration::from_millis(5)..=Duration::from_secs(60 * 60 * 24);
