#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", guard = "hold")]
async fn quoted() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", guard = self)]
async fn keyword() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", guard = None)]
async fn constant() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", guard = _)]
async fn no_name() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", guard = &hold)]
async fn reference() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:{hold}", guard = hold)]
async fn hides_an_argument(hold: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
