//! `lease` as a word, a literal and a `Duration`.

use std::time::Duration;

use lock_runtime::{LockClient, LockError, distributed_lock};

struct Job {
    lease: Duration,
}

impl Job {
    #[distributed_lock(key = "job", lease = self.lease, guard = hold)]
    async fn run(&self) -> Result<u64, LockError> {
        Ok(hold.remaining().as_secs())
    }
}

#[distributed_lock(key = "job", lease = "1m 40s", guard = hold)]
async fn fixed() -> Result<u64, LockError> {
    Ok(hold.remaining().as_secs())
}

#[distributed_lock(key = "job", lease = watchdog("200s"), guard = hold)]
async fn watched() -> Result<u64, LockError> {
    Ok(hold.remaining().as_secs())
}

#[distributed_lock(key = "job", lease = watchdog, guard = hold)]
async fn usual() -> Result<u64, LockError> {
    Ok(hold.remaining().as_secs())
}

/// Outlives its first lease several times.
#[distributed_lock(key = "job", lease = watchdog("150ms"), guard = hold)]
async fn renewed() -> Result<bool, LockError> {
    tokio::time::sleep(Duration::from_millis(500)).await;
    Ok(hold.is_lost())
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    LockClient::in_memory()
        .scope(async {
            // A lease counts from before the request and ends 1 % early.
            assert!((95..100).contains(&fixed().await?));
            assert!((195..200).contains(&watched().await?));
            assert!((25..30).contains(&usual().await?));
            assert!((55..60).contains(&Job { lease: Duration::from_secs(60) }.run().await?));
            assert!(!renewed().await?);
            let short = Job { lease: Duration::from_millis(1) };
            assert!(matches!(short.run().await, Err(LockError::InvalidOptions(_))));
            Ok(())
        })
        .await
}
