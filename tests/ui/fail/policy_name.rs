use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", policy = checkout)]
async fn unquoted() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", policy = "")]
async fn empty() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", policy = "none")]
async fn none() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", config = "checkout")]
async fn by_another_name() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
