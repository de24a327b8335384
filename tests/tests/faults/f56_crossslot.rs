//! Fault 56: a request names keys of different slots of a cluster (CROSSSLOT).
//!
//! - Promised: it cannot happen: all keys of one lock are in one slot, whatever its kind, and a lock of several names says what
//!   to do when those are not.
//! - Seen: no such error at any node.

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_has_keys_of_two_slots() {
    let mut drill = Drill::in_a_cluster().await;
    let error = drill.near.client.multi_lock(["one", "two"]).lock().await.unwrap_err();
    let (kind, text) = kind_and_text(&error);
    assert!(kind == StoreErrorKind::Config && text.contains("hash tag"), "{kind:?}: {text}");
    drill.all_work().await;
    for node in drill.servers() {
        assert_eq!(node.error_replies("CROSSSLOT").await, 0);
    }
    drill.end(secs(3)).await;
}
