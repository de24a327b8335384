use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", kind = semaphore)]
async fn no_limit() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", kind = semaphore())]
async fn empty() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", kind = semaphore(1, 2))]
async fn two_limits() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", kind = semaphore(0))]
async fn zero() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", kind = semaphore(-1))]
async fn negative() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", kind = semaphore(4294967296))]
async fn too_many() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", kind = semaphore("3"))]
async fn text() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
