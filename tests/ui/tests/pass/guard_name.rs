//! `guard = name` gives the body its hold.

use std::time::Duration;

use lock_runtime::{LockClient, LockError, LockGuard, distributed_lock};

#[distributed_lock(key = "account:{id}", guard = hold)]
async fn post(id: u64, log: &mut Vec<u64>) -> Result<u64, LockError> {
    let same: &LockGuard = hold;
    assert!(!same.is_lost());
    log.push(id);
    tokio::task::yield_now().await;
    Ok(hold.token().get())
}

#[distributed_lock(key = "account:1", guard = hold, lease = "200ms")]
async fn extended() -> Result<bool, LockError> {
    hold.extend(Duration::from_secs(60)).await?;
    Ok(hold.remaining() > Duration::from_secs(50))
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    let client = LockClient::in_memory();
    client
        .scope(async {
            let mut log = Vec::new();
            let first = post(1, &mut log).await?;
            let second = post(1, &mut log).await?;
            assert!(second > first);
            assert_eq!(log, [1, 1]);
            assert!(extended().await?);
            // It was given back although the body had it.
            assert!(client.mutex("account:1").try_lock().await?.is_some());
            Ok(())
        })
        .await
}
