//! Expressions of the wrong type are reported where they stand.
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", at_least = seconds)]
async fn at_least(seconds: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", max_hold = seconds)]
async fn max_hold(seconds: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", lease = watchdog(seconds))]
async fn lease(seconds: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
