use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", wait = "2")]
async fn text() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", wait = 2)]
async fn number() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", wait = 250ms)]
async fn unquoted() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", wait = -1)]
async fn negative() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
