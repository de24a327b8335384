//! Fault 28: the server stands still for longer than all leases (SIGSTOP), then goes on; by its clock all leases are over
//! at once.
//!
//! - Promised: each holder has learned of its loss by its own deadline, before the server goes on and grants the lock to
//!   another; every lock within 3 s.
//! - Seen: that; every lock within 1 s.

use crate::prelude::*;

drill!(every_lock_recovers, Drill::start(), May::Delay, secs(3), async |drill| {
    let held = hold_each(&drill.near.client, LEASE).await;
    drill.server.pause();
    let frozen = Instant::now();
    for guard in &held {
        // The server does not answer, so only the deadline can end it.
        let left = (LEASE * 3).saturating_sub(frozen.elapsed());
        timeout(left, guard.lost()).await.expect("the holder learns of it");
    }
    sleep((LEASE * 3).saturating_sub(frozen.elapsed())).await;
    drill.server.resume();
    for guard in held {
        let error = guard.release().await.unwrap_err();
        let by_deadline = matches!(error, LockError::Lost { cause: LossCause::Deadline, .. });
        assert!(by_deadline, "{error:?}");
    }
});
