use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", crate = "lock_runtime")]
async fn job() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
