use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", on_release_lost = "error")]
async fn quoted() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", on_release_lost = ignore)]
async fn unknown() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
