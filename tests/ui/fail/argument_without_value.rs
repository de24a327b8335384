use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", wait)]
async fn job() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", wait("2s"))]
async fn called() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
