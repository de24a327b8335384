use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", on_busy = "skip")]
async fn quoted() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", on_busy = wait)]
async fn unknown_busy() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", on_lost = ignore)]
async fn unknown_lost() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
