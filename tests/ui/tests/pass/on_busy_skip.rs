//! `on_busy = skip` says "skipped" in the words of the return type.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lock_runtime::{LockClient, LockError, distributed_lock};

static RUNS: AtomicU32 = AtomicU32::new(0);

type Report = Option<String>;

#[distributed_lock(key = "nightly", on_busy = skip)]
async fn unit() {
    RUNS.fetch_add(1, Ordering::Relaxed);
}

#[distributed_lock(key = "nightly", on_busy = skip)]
async fn option() -> Report {
    Some("ran".into())
}

#[distributed_lock(key = "nightly", on_busy = skip)]
async fn result() -> Result<(), LockError> {
    RUNS.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

#[distributed_lock(key = "nightly", on_busy = skip)]
async fn both() -> Result<Report, LockError> {
    Ok(option().await)
}

#[distributed_lock(key = "nightly", on_busy = skip, wait = "20ms")]
async fn after_a_while() -> Report {
    Some("ran".into())
}

#[distributed_lock(key = "nightly", on_busy = error, wait = none)]
async fn or_else() -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    let client = LockClient::in_memory();
    client
        .scope(async {
            unit().await;
            result().await?;
            assert_eq!(RUNS.swap(0, Ordering::Relaxed), 2);
            assert_eq!(option().await.as_deref(), Some("ran"));
            assert_eq!(both().await?.as_deref(), Some("ran"));

            let held = client.mutex("nightly").lock().await?;
            // Without a word about waiting it does not wait.
            let limit = Duration::from_secs(5);
            tokio::time::timeout(limit, unit()).await.expect("skips at once");
            assert_eq!(option().await, None);
            result().await?;
            assert_eq!(both().await?, None);
            assert_eq!(after_a_while().await, None);
            assert!(or_else().await.unwrap_err().is_busy());
            assert_eq!(RUNS.load(Ordering::Relaxed), 0);
            held.release().await
        })
        .await
}
