//! What looking up a policy allocates.

use lock_runtime::LockClient;
use lock_runtime::policy::LockConfig;

use super::{allocations, alone};

/// Nothing.
#[tokio::test]
async fn a_look_up_does_not_allocate() {
    let _alone = alone().await;
    let config = LockConfig::from_toml("[lock.policies.p]\n[lock.policies.q]").unwrap();
    let client = LockClient::builder().config(config).in_memory().unwrap();
    let found = async || assert!(client.policy("p").is_ok() && client.policy("q").is_ok());
    // The runtime of the test before may end meanwhile: the quietest round counts.
    let mut least = usize::MAX;
    for _ in 0..20 {
        least = least.min(allocations(1_000, found).await);
    }
    assert_eq!(least, 0);
}
