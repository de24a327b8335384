//! Bounds of what may be asked for.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The lease of [`LockOptions::default`](crate::LockOptions::default): Redisson's watchdog time-out.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(30);

/// Shortest lease that renewals and network delays fit into.
// S-10.
pub const MIN_LEASE: Duration = Duration::from_millis(100);

/// Longest lease: the fencing counter outlives any hold only within its own expiry.
// S-23.
pub const MAX_LEASE: Duration = Duration::from_secs(60 * 60 * 24);

/// How long a fencing counter outlives its last use unless told otherwise.
pub(crate) const DEFAULT_TOKEN_TTL: Duration = Duration::from_secs(60 * 60 * 24);

/// How long a client may have fencing counters outlive their last use: longer than most leases, and than a
/// clock is set back by.
pub(crate) const TOKEN_TTL: RangeInclusive<Duration> =
    Duration::from_secs(60 * 60)..=Duration::from_secs(30 * 24 * 60 * 60);

/// Most locks of one [`MultiLock`](crate::MultiLock): one command takes, renews or releases all of them, and
/// every other client waits while the server runs it.
pub const MAX_MULTI_NAMES: usize = 128;
