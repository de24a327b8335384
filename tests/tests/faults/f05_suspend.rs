//! Fault 5: the machine of a client sleeps for longer than its leases: when it wakes up, the clock that counts time asleep
//! has jumped.
//!
//! - Promised: at the first poll after it, each hold is lost, whatever its timers say; nothing is done under it; the client
//!   works again at once.
//! - Seen: every hold lost at the jump; every lock again within 0.1 s.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::drill::FAR;
use crate::prelude::*;

drill!(every_lock_recovers, Drill::start(), May::Delay, secs(3), async |drill| {
    let held = hold_each(&drill.far.client, LEASE).await;
    let clock = drill.far.clock.clone();
    let did = AtomicBool::new(false);
    let body = async {
        clock.advance(2 * LEASE);
        tokio::task::yield_now().await;
        did.store(true, Ordering::SeqCst);
    };
    // The clock of the history does not count time asleep.
    let recorder = drill.record_as(FAR);
    recorder.record_stop("the sleep", FAR);
    let lost = held[0].run(body).await;
    recorder.record_end_of_fault("the sleep");
    let by_deadline = matches!(lost, Err(LockError::Lost { cause: LossCause::Deadline, .. }));
    assert!(by_deadline && !did.load(Ordering::SeqCst), "{lost:?}");
    for guard in held {
        assert!(guard.is_lost(), "{guard:?}");
        assert!(guard.release().await.unwrap_err().is_lost());
    }
});
