use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly" wait = none)]
async fn no_comma() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = )]
async fn no_value() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key: "nightly")]
async fn colon() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
