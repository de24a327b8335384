//! Semaphores on Redis (S-30): what Redis sees, Redisson beside us, and faults.

use crate::prelude::*;

const DAY: Duration = secs(24 * 60 * 60);

/// Redisson's score for a permit without a lease.
const FOREVER: &str = "922337203685477";

async fn world() -> (RedisServer, LockClient, RawClient) {
    let (server, client) = crate::prelude::world().await;
    let raw = server.client();
    (server, client, raw)
}

async fn free(raw: &RawClient, name: &str) -> i64 {
    raw.get(&["GET", name]).await
}

/// The permits in use: members and scores.
async fn used(raw: &RawClient, name: &str) -> Vec<(String, f64)> {
    raw.get(&["ZRANGE", &format!("{{{name}}}:timeout"), "0", "-1", "WITHSCORES"]).await
}

/// Redisson's keys and messages: free permits, permits in use by the end of their lease, and positive
/// numbers on its channel; everything ends by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_have_redissons_layout() {
    let (server, client, raw) = world().await;
    let log = server.subscribe_log("redisson_sc:{wire}").await;
    let lease = secs(20);
    let semaphore = client.semaphore("wire", 5).with(watched(lease));
    let now = async || {
        let (seconds, micros): (f64, f64) = raw.get(&["TIME"]).await;
        (seconds * 1e3 + micros / 1e3).floor()
    };
    let before = now().await;
    let two = semaphore.acquire_many(2).await.unwrap();
    let one = semaphore.acquire().await.unwrap();
    let ends = before + 20_000.0..=now().await + 20_000.0;
    let members = used(&raw, "wire").await;
    assert_eq!(members.len(), 3);
    assert!(members.iter().all(|(_, end)| ends.contains(end)), "{members:?} not in {ends:?}");
    assert_eq!(members[0].1, members[1].1, "permits of one hold end apart");
    assert_eq!(free(&raw, "wire").await, 2);
    for key in ["wire", "{wire}:timeout"] {
        let left = left(raw.pttl(key).await);
        assert!(left > DAY && left <= DAY + lease, "{key}: {left:?}");
    }
    two.release().await.unwrap();
    assert_eq!(free(&raw, "wire").await, 4);
    one.release().await.unwrap();
    assert_eq!(log.wait_for(2, SOON).await, ["2", "1"]);
    assert_eq!(raw.keys().await, ["redisson_lock_token:{wire}", "wire"]);
    assert_eq!(free(&raw, "wire").await, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewal_keeps_both_keys() {
    let (_server, client, raw) = world().await;
    let lease = ms(1_500);
    let permit = client.semaphore("day", 5).with(watched(lease)).acquire_many(2).await.unwrap();
    for key in ["day", "{day}:timeout"] {
        raw.cmd(&["PEXPIRE", key, "1000"]).await;
    }
    sleep(2 * lease).await;
    assert_eq!((used(&raw, "day").await.len(), free(&raw, "day").await), (2, 3));
    assert!(left(raw.pttl("day").await) <= lease, "not what this test is about");
    permit.release().await.unwrap();
}

/// A permit without a lease that Redisson took of a semaphore of ours is not lost with the key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_longer_lease_is_kept() {
    let (_server, client, raw) = world().await;
    let semaphore = client.semaphore("mixed", 3);
    semaphore.acquire().await.unwrap().release().await.unwrap();
    raw.cmd(&["DECRBY", "mixed", "1"]).await;
    raw.cmd(&["ZADD", "{mixed}:timeout", FOREVER, "peer"]).await;
    let permit = semaphore.acquire().await.unwrap();
    for key in ["mixed", "{mixed}:timeout"] {
        assert!(left(raw.pttl(key).await) > 1000 * DAY, "{key}");
    }
    permit.release().await.unwrap();
}

/// Leases that ended are swept by whoever acquires next, who tells how many permits that made; a
/// number below one is never told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_positive_numbers_are_published() {
    let (server, client, raw) = world().await;
    let log = server.subscribe_log("redisson_sc:{told}").await;
    client.semaphore("told", 4).acquire().await.unwrap().release().await.unwrap();
    for (dead, limit) in [(1, 4), (4, 4), (3, 1)] {
        for n in 0..dead {
            raw.cmd(&["ZADD", "{told}:timeout", "1", &format!("dead:{n}")]).await;
        }
        let permit = client.semaphore("told", limit).acquire().await.unwrap();
        assert_eq!(used(&raw, "told").await.len(), 1, "not swept");
        permit.release().await.unwrap();
    }
    let told = log.wait_for(6, SOON).await;
    assert_eq!(told, ["1", "3", "1", "3", "1", "1"]);
}

/// S-32: another limit than the one that Redisson gave it is named, and nothing is touched.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_semaphore_of_another_size_is_left_alone() {
    let (_server, client, raw) = world().await;
    raw.cmd(&["SET", "other", "1"]).await;
    raw.cmd(&["ZADD", "{other}:timeout", FOREVER, "peer"]).await;
    let (three, before) = (client.semaphore("other", 3), raw.cmd(&["DUMP", "other"]).await);
    for refused in [three.acquire().await.map(drop), three.try_acquire().await.map(drop)] {
        assert!(matches!(refused, Err(LockError::KeyCollision { .. })), "{refused:?}");
    }
    assert_eq!(raw.cmd(&["DUMP", "other"]).await, before, "it was touched");
}
