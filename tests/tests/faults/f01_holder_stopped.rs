//! Fault 1: the process of a holder stands still for longer than its lease (SIGSTOP), then goes on.
//!
//! - Promised: others get the lock after the lease; the holder learns of the loss before it does anything more, except in
//!   the poll in which it was stopped; its release takes nothing from the successor; every lock within 2 s of the end.
//! - Seen: the other parties after 1 s; the process 0.4 s after it goes on; at most two late effects, one for each of its
//!   threads.

use crate::prelude::*;

/// How many threads of the process run its tasks. Each may be stopped in the middle of a poll, which then ends with an effect.
const THREADS: usize = 2;

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
    let late = report.allowed.iter().filter(|it| matches!(it, Violation::LateEffect(_))).count();
    assert!(late <= THREADS, "{late} late effects: {report}");
}
