//! `at_least` and `max_hold`, as literals and as expressions.

use std::time::{Duration, Instant};

use lock_runtime::{LockClient, LockError, distributed_lock};

#[distributed_lock(key = "short", at_least = "300ms")]
async fn at_least() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "short", at_least = least)]
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

#[distributed_lock(key = "long", at_least = limit * 2, max_hold = limit)]
async fn at_odds(limit: Duration) -> Result<(), LockError> {
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), LockError> {
    let client = LockClient::in_memory();
    client.install();
    for least in [None, Some(Duration::from_millis(300))] {
        let started = Instant::now();
        match least {
            None => at_least().await?,
            Some(least) => computed(least).await?,
        }
        // Nobody has it before, whether the call or the store saw to it.
        let held = client.mutex("short").lock().await?;
        assert!(started.elapsed() >= Duration::from_millis(290), "{:?}", started.elapsed());
        held.release().await?;
    }
    assert!(max_hold().await.unwrap_err().is_lost());
    assert!(both_computed(Duration::from_millis(100)).await.unwrap_err().is_lost());
    let error = at_odds(Duration::from_secs(1)).await.unwrap_err();
    assert!(matches!(error, LockError::InvalidOptions(_)), "{error}");
    Ok(())
}
