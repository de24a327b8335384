use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", wait = none, key = "daily")]
async fn job() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
