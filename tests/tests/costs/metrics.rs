//! What counting allocates.

use lock_runtime::policy::LockConfig;
use lock_runtime::{AnyLock, LockClient, LockKind};
use metrics::NoopRecorder;

use super::{ALLOCATOR, alone};

const PAIRS: usize = 2_000;

/// Allocations of so many times lock, lock again inside, release both.
async fn pairs(lock: &AnyLock) -> usize {
    let before = ALLOCATOR.stats().allocations;
    for _ in 0..PAIRS {
        let guard = lock.lock().await.unwrap();
        let nested = guard.run(lock.lock()).await.unwrap().unwrap();
        nested.release().await.unwrap();
        guard.release().await.unwrap();
    }
    ALLOCATOR.stats().allocations - before
}

/// §3.4: labels are made once for each policy and kind; from then on, being seen allocates nothing.
#[tokio::test]
async fn counting_allocates_nothing() {
    let _alone = alone().await;
    let text = "[lock.policies.checkout]\nwait = '3s'";
    let config = LockConfig::from_toml(text).unwrap();
    let client = LockClient::builder().config(config).in_memory().unwrap();
    let plain = client.any_lock(LockKind::Mutex, ["a"]);
    let followed = client.policy_lock("checkout", ["a"]);
    pairs(&plain).await;
    let unseen = pairs(&plain).await;

    // It allocates nothing itself. What is counted is seen elsewhere.
    let _here = metrics::set_default_local_recorder(&NoopRecorder);
    pairs(&followed).await;
    let seen = pairs(&followed).await;
    // What the background tasks allocate in between is a matter of chance.
    assert!(seen < unseen + PAIRS / 10, "{unseen} allocations grew to {seen}");
    assert!(unseen > PAIRS, "only {unseen} allocations counted: the test sees nothing");
}
