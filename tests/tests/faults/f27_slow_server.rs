//! Fault 27: the server answers nothing for longer than clients wait for an answer (DEBUG SLEEP), twice.
//!
//! - Promised: requests time out and are repeated; holds keep their deadline, and those with enough lease are not lost;
//!   every lock within 3 s.
//! - Seen: that; every lock within 0.5 s.

use crate::prelude::*;

drill!(every_lock_recovers, Drill::start(), May::Repeat, secs(3), async |drill| {
    // What a client has given up on one connection, and undone on the next, may arrive after that.
    let lease = LEASE * 6;
    let held = hold_each(&drill.far.client, lease).await;
    let since = Instant::now();
    for _ in 0..2 {
        // Renewals are due after a third of the lease, and get no answer in time.
        sleep((lease / 4).saturating_sub(since.elapsed())).await;
        drill.server.client().cmd(&["DEBUG", "SLEEP", "1.5"]).await;
    }
    // Each has been renewed by then, or is lost.
    sleep((lease + LEASE / 2).saturating_sub(since.elapsed())).await;
    release_each(held).await;
});
