//! Fault 15: the network swallows everything between a client and the server, both ways, while it holds locks.
//!
//! - Promised: each hold is lost at its own deadline; others get the locks after the lease; the client works again as soon as
//!   the network does, over a new connection: every lock within 3 s of the end.
//! - Seen: the others after 1 s; the client 0.6 to 1.1 s after the network is back.

use crate::prelude::*;

drill!(every_lock_recovers, Drill::start(), May::Delay, secs(3), async |drill| {
    let held = hold_each(&drill.far.client, LEASE).await;
    drill.proxy.black_hole();
    for guard in &held {
        let lost = timeout(2 * LEASE, guard.lost()).await.expect("not lost at its deadline");
        let by_deadline = matches!(lost, LockError::Lost { cause: LossCause::Deadline, .. });
        assert!(by_deadline, "{lost}");
    }
    // Others have what the client has lost.
    soon_free(&drill.near.client).await;
    // A permit that was not given back goes when a permit is acquired after its lease.
    release_each(hold_each(&drill.near.client, LEASE * 10).await).await;
    drill.near.works().await;
    drill.proxy.pass();
});
