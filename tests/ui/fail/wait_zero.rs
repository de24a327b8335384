use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", wait = "0s")]
async fn job() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
