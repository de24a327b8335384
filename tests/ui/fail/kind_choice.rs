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

fn main() {}
