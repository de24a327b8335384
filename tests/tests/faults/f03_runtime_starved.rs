//! Fault 3: code that blocks takes all threads of a process's runtime, for longer than its leases.
//!
//! - Promised: others get the locks after the lease; the process learns of each loss before it does anything more, so no
//!   effect comes late; it works again at once.
//! - Seen: the others after 1 s, the process 0.1 s after its threads are free; no late effect.

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lock_recovers() {
    let mut drill = Drill::start().await;
    let starve = async |drill: &mut Drill| {
        let blocked = LEASE + LEASE / 2;
        drill.process.send("hold");
        assert_eq!(drill.process.next_line(SOON).await, "held");
        drill.process.send(&format!("block {}", blocked.as_millis()));
        let waited = Instant::now();
        release_each(hold_each(&drill.near.client, LEASE * 10).await).await;
        eprintln!("all locks of the starved after {:?}", waited.elapsed());
        drill.near.works().await;
        assert_eq!(drill.process.next_line(SOON).await, "blocked");
    };
    drill.fault(May::Stop, starve).await;
    let report = drill.end(secs(3)).await;
    assert!(report.losses >= Job::ALL.len(), "too few were lost: {report}");
    // What is allowed of a process that is stopped in the midst of a poll is not of one whose polls block. But a write that
    // was handed to the network before may be sent late, and undo another's update.
    let late = |it: &Violation| matches!(it, Violation::LateEffect(_));
    assert!(!report.allowed.iter().any(late), "{report}");
}
