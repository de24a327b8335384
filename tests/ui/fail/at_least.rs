use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", at_least = "0s")]
async fn zero() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", at_least = "25h")]
async fn too_long() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", at_least = 5)]
async fn number() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", at_least = "soon")]
async fn no_time() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", lease = "10s", at_least = "1m")]
async fn longer_than_the_lease() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", at_least = "1m", max_hold = "10s")]
async fn longer_than_max_hold() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
