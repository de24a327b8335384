use lock_runtime::{LockError, LockGuard, distributed_lock};

#[distributed_lock(key = "nightly", guard = hold)]
async fn returned() -> Result<&'static LockGuard, LockError> {
    Ok(hold)
}

#[distributed_lock(key = "nightly", guard = hold)]
async fn spawned() -> Result<(), LockError> {
    tokio::spawn(async { hold.token() });
    Ok(())
}

fn main() {}
