#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", guard = "hold")]
async fn quoted() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:{hold}", guard = hold)]
async fn hides_an_argument(hold: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
