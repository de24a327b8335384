//! `wait` as a word, a literal, a `Duration` and a `Wait`.

use std::time::Duration;

use lock_runtime::{LockClient, LockError, Wait, distributed_lock};

struct Till {
    patience: Wait,
}

impl Till {
    #[distributed_lock(key = "till", wait = self.patience)]
    async fn open(&self) -> Result<(), LockError> {
        Ok(())
    }
}

#[distributed_lock(key = "till", wait = none)]
async fn not_at_all() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "till", wait = "20ms")]
async fn a_little() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "till", wait = Duration::from_millis(millis))]
async fn computed(millis: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "till", wait = forever)]
async fn patiently() -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    let client = LockClient::in_memory();
    client
        .scope(async {
            let held = client.mutex("till").lock().await?;
            assert!(matches!(not_at_all().await, Err(LockError::Busy { .. })));
            assert!(matches!(a_little().await, Err(LockError::Timeout { .. })));
            assert!(matches!(computed(20).await, Err(LockError::Timeout { .. })));
            let till = Till { patience: Wait::None };
            assert!(matches!(till.open().await, Err(LockError::Busy { .. })));

            let waiting = tokio::spawn(lock_runtime::scope::inherit(patiently()));
            tokio::time::sleep(Duration::from_millis(30)).await;
            assert!(!waiting.is_finished());
            held.release().await?;
            waiting.await.expect("does not panic")
        })
        .await
}
