//! A master that is stopped until its replica takes over, and goes on right after that: as with sentinels,
//! nobody may believe what it grants then.

use std::time::Duration;

use lock_runtime::LockClient;
use lock_tests::{RedisCluster, eventually};
use tokio::time::sleep;

use super::failover::{FAIL_OVER, names_at};
use super::takers::{EXCLUSIVE, Takers, rounds, violations};
use super::world::client_with;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_hold_a_lock_when_the_old_master_goes_on() {
    let mut found = Vec::new();
    for round in 0..rounds() {
        let violations = play().await;
        found.extend(violations.into_iter().map(|text| format!("round {round}: {text}")));
    }
    assert!(found.is_empty(), "{} in {} rounds:\n{}", found.len(), rounds(), found.join("\n"));
}

/// One round: what was wrong in it.
async fn play() -> Vec<String> {
    let cluster = RedisCluster::with_replicas().await;
    let names = names_at(&cluster, 0, EXCLUSIVE.len()).await;
    let dir = tempfile::tempdir().unwrap();
    let mut takers = Takers::new(dir.path());
    for timeout in [1, 4, 8] {
        let builder = LockClient::builder().store_patience(FAIL_OVER);
        let builder = builder.command_timeout(Duration::from_secs(timeout));
        let client = client_with(&cluster, builder).await;
        EXCLUSIVE.iter().zip(&names).for_each(|(kind, name)| takers.add(&client, kind, name));
    }
    sleep(Duration::from_millis(fastrand::u64(300..600))).await;
    cluster.node(0).pause();
    let replica = cluster.node(3).client();
    eventually(FAIL_OVER, "the replica takes over", async || {
        let info: String = replica.get(&["INFO", "replication"]).await;
        info.contains("role:master")
    })
    .await;
    sleep(Duration::from_millis(fastrand::u64(20..80))).await;
    cluster.node(0).resume();
    sleep(Duration::from_secs(2)).await;
    takers.join().await;
    violations(dir.path())
}
