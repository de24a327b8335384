#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(wait = "2s")]
async fn pay(order: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock]
async fn nightly() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
