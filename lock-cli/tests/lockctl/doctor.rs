//! `lockctl doctor`.

use lock_tests::{RedisCluster, RedisServer};
use serde_json::Value;

use crate::world::{Ran, lockctl};

async fn doctor(address: &[&str]) -> Ran {
    lockctl(&[address, &["doctor", "--json"]].concat()).await
}

/// The verdict of a check.
fn verdict(ran: &Ran, check: &str) -> String {
    let json = ran.json();
    let found = json["checks"].as_array().unwrap().iter().find(|one| one["check"] == check);
    let verdict = found.unwrap_or_else(|| panic!("no {check} in {ran:?}"))["verdict"].clone();
    verdict.as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_for_locks_has_no_problem() {
    let server = RedisServer::builder().arg("--appendonly", "yes").start().await;
    let ran = doctor(&["--url", &server.url()]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let json = ran.json();
    let bad: Vec<&Value> =
        json["checks"].as_array().unwrap().iter().filter(|one| one["verdict"] != "ok").collect();
    assert!(bad.is_empty(), "{bad:?}");
    let text = lockctl(&["--url", &server.url(), "doctor"]).await;
    assert!(text.stdout.contains("noeviction") && text.stdout.contains("semaphores"), "{text:?}");
    let raw = server.client();
    for key in raw.keys().await {
        let left: i64 = raw.get(&["PTTL", &key]).await;
        assert!(left > 0, "{key} has no end");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dangers_are_problems() {
    let server = RedisServer::start().await;
    server.client().cmd(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
    let ran = doctor(&["--url", &server.url()]).await;
    assert_eq!((ran.code, verdict(&ran, "eviction")), (1, "problem".to_owned()), "{ran:?}");
    assert_eq!(verdict(&ran, "persistence"), "warning");
    let text = lockctl(&["--url", &server.url(), "doctor"]).await;
    assert!(text.stdout.contains("set `maxmemory-policy noeviction`"), "{text:?}");

    let replica = RedisServer::builder().replica_of(server.port()).start().await;
    server.wait_for_replicas(1).await;
    let ran = doctor(&["--url", &server.url()]).await;
    assert_eq!(verdict(&ran, "replicas"), "warning", "{ran:?}");
    let ran = doctor(&["--url", &replica.url()]).await;
    assert_eq!((ran.code, verdict(&ran, "role")), (1, "problem".to_owned()), "{ran:?}");
    assert_eq!(verdict(&ran, "mutexes"), "problem");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_master_of_a_cluster_is_checked() {
    let cluster = RedisCluster::start().await;
    let ran = doctor(&["--cluster", &cluster.node(0).url()]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let json = ran.json();
    let roles = json["checks"].as_array().unwrap().iter().filter(|one| one["check"] == "role");
    assert_eq!(roles.count(), 3, "{json}");
    assert_eq!(verdict(&ran, "several at once"), "ok");
}
