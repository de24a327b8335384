use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", lease = "99ms")]
async fn fixed() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", lease = watchdog("0s"))]
async fn watchdog() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", lease = "2 days")]
async fn too_long() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
