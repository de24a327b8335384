//! A body that outlives a fixed lease is cut off, or finishes and its loss is reported.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_runtime::{LockClient, LockError, distributed_lock};

#[distributed_lock(key = "slow", lease = "100ms")]
async fn usual(finished: &AtomicBool) -> Result<(), LockError> {
    tokio::time::sleep(Duration::from_millis(300)).await;
    finished.store(true, Ordering::Relaxed);
    Ok(())
}

#[distributed_lock(key = "slow", lease = "100ms", on_lost = cancel)]
async fn cancelled(finished: &AtomicBool) -> Result<(), LockError> {
    tokio::time::sleep(Duration::from_millis(300)).await;
    finished.store(true, Ordering::Relaxed);
    Ok(())
}

#[distributed_lock(key = "slow", lease = "100ms", on_lost = finish)]
async fn finishing(finished: &AtomicBool) -> Result<(), LockError> {
    tokio::time::sleep(Duration::from_millis(300)).await;
    finished.store(true, Ordering::Relaxed);
    Ok(())
}

#[tokio::test]
async fn runs() {
    LockClient::in_memory()
        .scope(async {
            let finished = AtomicBool::new(false);
            assert!(usual(&finished).await.unwrap_err().is_lost());
            assert!(cancelled(&finished).await.unwrap_err().is_lost());
            tokio::time::sleep(Duration::from_millis(400)).await;
            assert!(!finished.load(Ordering::Relaxed));
            assert!(finishing(&finished).await.unwrap_err().is_lost());
            assert!(finished.load(Ordering::Relaxed));
        })
        .await
}
