//! Fault 34: the server is full and evicts keys of any kind (`maxmemory-policy allkeys-random`), locks and counters of fencing
//! tokens among them.
//!
//! - Promised: the client warns of the policy when it connects. No lock can prevent that two then hold it; a holder learns
//!   of it with its next renewal; fencing tokens still grow; every lock within 2 s.
//! - Seen: 3 to 5 of 6 holds lost, each known within 2 s, with a lease of 6 s; every lock within 0.4 s.

use crate::each::evict;
use crate::prelude::*;

/// Keys like any other.
const FILL: &str = "for i = 1, 500 do
  redis.call('SET', 'fill:' .. i, string.rep('x', 1024), 'EX', 60)
end";

drill!(every_lock_recovers, Drill::start(), May::Delay, secs(2), async |drill| {
    evict(drill, FILL, "allkeys-random", 1).await;
});
