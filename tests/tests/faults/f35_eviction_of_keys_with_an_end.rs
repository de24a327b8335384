//! Fault 35: the server is full and evicts keys that have an end (`maxmemory-policy volatile-ttl`, as of a cache), which all
//! locks have.
//!
//! - Promised: as for [fault 34](../tests/tests/faults/f34_eviction_of_any_key.rs).
//! - Seen: all 6 holds lost, each known within 2 s, with a lease of 6 s; every lock within 0.5 s.

use crate::each::evict;
use crate::prelude::*;

/// A key that has no end.
const FILL: &str = "redis.call('SET', 'fill', string.rep('x', 512 * 1024))";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lock_recovers() {
    let mut drill = Drill::start().await;
    let evict = async |drill: &mut Drill| {
        evict(drill, FILL, "volatile-ttl", Job::ALL.len()).await;
    };
    drill.fault(May::Delay, evict).await;
    drill.end(secs(2)).await;
}
