//! Fault 53: the server is a replica without its master, and refuses to answer at all (MASTERDOWN).
//!
//! - Promised: as for [fault 52](../tests/tests/faults/f52_read_only.rs).
//! - Seen: 0.7 to 1.7 s: the clients look for another master and connect anew. 100 to 110 refusals a second, of 39
//!   tasks.

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lock_recovers() {
    let before = async |server: &RedisServer| {
        let set = ["CONFIG", "SET", "replica-serve-stale-data", "no"];
        server.client().cmd(&set).await;
    };
    let enter = async |server: &RedisServer| {
        server.client().cmd(&["REPLICAOF", "127.0.0.1", "1"]).await;
    };
    let leave = async |server: &RedisServer| {
        server.client().cmd(&["REPLICAOF", "NO", "ONE"]).await;
    };
    refused("MASTERDOWN", before, enter, leave).await;
}
