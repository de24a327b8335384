//! Fault 35: the server is full and evicts keys that have an end (`maxmemory-policy volatile-ttl`, as of a cache), which all
//! locks have.
//!
//! - Promised: as for [fault 34](../tests/tests/faults/f34_eviction_of_any_key.rs).
//! - Seen: all 6 holds lost, each known within 2 s, with a lease of 6 s; every lock within 0.5 s.

use crate::each::evict;
use crate::prelude::*;

/// A key that has no end.
const FILL: &str = "redis.call('SET', 'fill', string.rep('x', 512 * 1024))";

drill!(every_lock_recovers, Drill::start(), May::Delay, secs(2), async |drill| {
    evict(drill, FILL, "volatile-ttl", Job::ALL.len()).await;
});
