//! Fault 1: the process of a holder stands still for longer than its lease (SIGSTOP), then goes on.
//!
//! - Promised: others get the lock after the lease; the holder learns of the loss before it does anything more, except in
//!   the poll in which it was stopped; its release takes nothing from the successor; every lock within 2 s of the end.
//! - Seen: the other parties after 1 s; the process 0.4 s after it goes on; at most one late effect a hold.

use std::collections::BTreeSet;

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lock_recovers() {
    let mut drill = Drill::start().await;
    let stop = async |drill: &mut Drill| {
        drill.process.send("hold");
        assert_eq!(drill.process.next_line(SOON).await, "held");
        drill.process.sigstop();
        // While it stands still, others go on.
        sleep(LEASE + LEASE / 2).await;
        drill.near.works().await;
        drill.process.sigcont();
    };
    drill.fault(May::Stop, stop).await;
    let report = drill.end(secs(2)).await;
    assert!(report.losses >= Job::ALL.len(), "too few were lost: {report}");
    // In the poll in which it was stopped. What comes after it has looked at the lock again.
    let mut late = BTreeSet::new();
    for violation in &report.allowed {
        if let Violation::LateEffect(event) = violation {
            let is_first = late.insert((event.task, &event.object));
            assert!(is_first, "two late effects of one hold: {report}");
        }
    }
}
