use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", lease = 30)]
async fn number() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", lease = forever)]
async fn forever() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", lease = watchdog())]
async fn no_time() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", lease = millis)]
async fn expression(millis: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
