//! Fault 55: the server cannot write its snapshot, and so refuses all writes (MISCONF).
//!
//! - Promised: as for [fault 52](../tests/tests/faults/f52_read_only.rs).
//! - Seen: 0.2 to 0.5 s; 1 400 refusals a second, of 39 tasks.

use std::path::PathBuf;

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lock_recovers() {
    let before = async |server: &RedisServer| {
        server.client().cmd(&["CONFIG", "SET", "save", "3600 1000000"]).await;
    };
    let enter = async |server: &RedisServer| {
        // In the way of the file, also if root runs the tests.
        std::fs::create_dir(snapshot(server).await).unwrap();
        save(server, "err").await;
    };
    let leave = async |server: &RedisServer| {
        std::fs::remove_dir(snapshot(server).await).unwrap();
        save(server, "ok").await;
    };
    refused("MISCONF", before, enter, leave).await;
}

/// Has the server write a snapshot, until that has this outcome.
async fn save(server: &RedisServer, outcome: &str) {
    let raw = server.client();
    let outcome = format!("rdb_last_bgsave_status:{outcome}");
    eventually(SOON, &outcome, async || {
        let _ = raw.try_cmd(&["BGSAVE"]).await;
        raw.get::<String>(&["INFO", "persistence"]).await.contains(&outcome)
    })
    .await;
}

async fn snapshot(server: &RedisServer) -> PathBuf {
    let (_, dir): (String, String) = server.client().get(&["CONFIG", "GET", "dir"]).await;
    PathBuf::from(dir).join("dump.rdb")
}
