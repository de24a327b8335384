use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", wait = "a while")]
async fn text() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", wait = "forever")]
async fn quoted() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", wait = forver)]
async fn misspelt() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", wait = seconds)]
async fn expression(seconds: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
