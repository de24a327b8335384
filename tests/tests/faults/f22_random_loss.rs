//! Fault 22: the network of a client loses a fifth of all packets at random, so a fifth of what it sends and receives comes
//! 200 ms late.
//!
//! - Promised: the client is slower, and that is all: no lock with enough lease is lost.
//! - Seen: no loss, not even of leases of 1 s; the client had every lock within 2 to 4 s.

use crate::prelude::*;

drill!(it_is_only_slower, Drill::start(), May::Delay, secs(2), async |drill| {
    drill.proxy.lose_some();
    let start = Instant::now();
    drill.far.work(1).await;
    eprintln!("the client works in {:?}", start.elapsed());
    let lease = LEASE * 5;
    let held = hold_each(&drill.far.client, lease).await;
    // Each has been renewed by then, or is lost.
    sleep(lease + LEASE / 2).await;
    release_each(held).await;
    drill.proxy.pass();
});
