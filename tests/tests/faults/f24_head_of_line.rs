//! Fault 24: the program sends slow commands to the same server (BLPOP, a reply of 16 MB), and waits for replicas that are not
//! there with the lock client itself.
//!
//! - Promised: nothing of it delays a renewal or a release: the client shares its connection with no other code, and waits for
//!   replicas over another one.
//! - Seen: no lock lost, none free for long while a task waits.

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_go_on() {
    let mut drill = Drill::start().await;
    let program = RawClient::new(&drill.server.url());
    let blocked = tokio::spawn(async move {
        program.cmd(&["SETRANGE", "fill", "16777215", "x"]).await;
        program.cmd(&["BLPOP", "nothing", "2"]).await;
        program.cmd(&["GET", "fill"]).await;
        program.cmd(&["DEL", "fill"]).await;
    });
    let lease = LEASE * 3;
    let held = hold_each(&drill.near.client, lease).await;
    let since = Instant::now();
    let replicated = watched(LEASE).wait(secs(1)).replicas(Replicas::new(1, LEASE / 2));
    let acquired = drill.near.client.mutex("replicated").with(replicated).lock().await;
    let error = acquired.unwrap_err();
    assert!(matches!(error, LockError::NotReplicated { .. }), "{error:?}");
    drill.all_work().await;
    timeout(SOON, blocked).await.unwrap().unwrap();
    all_are_renewed(&held, since.elapsed().min(LEASE * 5 / 2), lease);
    release_each(held).await;
    drill.end(Duration::ZERO).await;
}
