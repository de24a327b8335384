use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", kind = "fair")]
async fn quoted() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", kind = reed)]
async fn misspelt() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", kind = spin)]
async fn unknown() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", kind(fair))]
async fn called() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", kind = HoldKind::Fair)]
async fn path() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", type = fair)]
async fn by_another_name() -> Result<(), LockError> {
    Ok(())
}

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
