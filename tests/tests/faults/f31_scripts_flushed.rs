//! Fault 31: the server forgets all scripts again and again (SCRIPT FLUSH), as after a restart.
//!
//! - Promised: the client sends them again, for acquires, renewals and releases; nothing else happens.
//! - Seen: no lock lost, none free for long while a task waits.

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_happens() {
    let mut drill = Drill::start().await;
    let held = hold_each(&drill.near.client, LEASE).await;
    let until = Instant::now() + LEASE * 3 / 2;
    while Instant::now() < until {
        drill.server.client().cmd(&["SCRIPT", "FLUSH"]).await;
        sleep(ms(20)).await;
    }
    release_each(held).await;
    drill.all_work().await;
    let report = drill.end(Duration::ZERO).await;
    assert_eq!(report.losses, 0, "{report}");
}
