use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", kind = semaphore(limit))]
async fn job(limit: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
