//! Fault 43: an operator deletes locks that are held (DEL), and then all there is (FLUSHALL).
//!
//! - Promised: no renewal creates a lock anew; every holder learns of the loss from its next renewal; tokens grow all the
//!   same; every lock within 3 s.
//! - Seen: 0.5 to 1.5 s: what a waiter was told of the lease is waited for, as no message says that it has ended.

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lock_recovers() {
    let mut drill = Drill::start().await;
    let raw = drill.server.client();
    let deleted = Kept::take(&drill.near.client, "deleted").await;
    let flushed = Kept::take(&drill.near.client, "flushed").await;
    for kind in EXCLUSIVE {
        assert!(raw.del(&format!("deleted {kind}")).await);
    }
    deleted.are_lost(&drill.far.client).await;
    let flush = async |drill: &mut Drill| drop(drill.server.client().cmd(&["FLUSHALL"]).await);
    drill.fault(May::Forget, flush).await;
    flushed.are_lost(&drill.far.client).await;
    drill.end(secs(3)).await;
}
