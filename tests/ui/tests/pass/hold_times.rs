//! `at_least`, `max_hold` and `release_timeout`, as literals and as expressions.

use std::time::Duration;

use lock_runtime::{LockClient, LockError, distributed_lock};

#[distributed_lock(key = "short:1", at_least = "1ms")]
async fn at_least() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "short:2", at_least = least)]
async fn computed(least: Duration) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "long", lease = watchdog("100ms"), max_hold = "300ms")]
async fn max_hold() -> Result<(), LockError> {
    std::future::pending().await
}

#[distributed_lock(key = "long", lease = watchdog(lease), max_hold = 3 * lease)]
async fn both_computed(lease: Duration) -> Result<(), LockError> {
    std::future::pending().await
}

#[distributed_lock(key = "long", at_least = limit * 2, lease = limit)]
async fn at_odds(limit: Duration) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "released", release_timeout = "0s")]
async fn in_the_background() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "released", release_timeout = limit, kind = fair)]
async fn within(limit: Duration) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    LockClient::in_memory()
        .scope(async {
            at_least().await?;
            computed(Duration::from_millis(1)).await?;
            let error = computed(Duration::ZERO).await.unwrap_err();
            assert!(matches!(error, LockError::InvalidOptions(_)), "{error}");
            in_the_background().await?;
            within(Duration::from_millis(1)).await?;
            assert!(max_hold().await.unwrap_err().is_lost());
            assert!(both_computed(Duration::from_millis(100)).await.unwrap_err().is_lost());
            let error = at_odds(Duration::from_secs(1)).await.unwrap_err();
            assert!(matches!(error, LockError::InvalidOptions(_)), "{error}");
            Ok(())
        })
        .await
}
