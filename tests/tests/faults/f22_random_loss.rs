//! Fault 22: the network of a client loses a fifth of all packets at random, so a fifth of what it sends and receives comes
//! 200 ms late.
//!
//! - Promised: the client is slower, and that is all: no lock is lost, and none is free for long while a task waits.
//! - Seen: no loss; the client had every lock within 2 to 4 s.

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_only_slower() {
    let mut drill = Drill::start().await;
    let lose = async |drill: &mut Drill| {
        drill.proxy.lose_some();
        let start = Instant::now();
        drill.far.work(1).await;
        eprintln!("the client works in {:?}", start.elapsed());
        let held = hold_each(&drill.far.client, LEASE).await;
        sleep(LEASE).await;
        release_each(held).await;
        drill.proxy.pass();
    };
    drill.fault(May::Delay, lose).await;
    let report = drill.end(secs(1)).await;
    assert_eq!((report.losses, report.allowed.len()), (0, 0), "{report}");
}
