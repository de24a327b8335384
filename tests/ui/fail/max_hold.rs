use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", max_hold = "0s")]
async fn zero() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", max_hold = true)]
async fn no_time() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", lease = "10s", max_hold = "5s")]
async fn nothing_to_renew() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
