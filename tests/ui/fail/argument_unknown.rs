use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", leese = "10s")]
async fn misspelt() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", timeout = "10s")]
async fn by_another_name() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", colour(red))]
async fn unheard_of() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
