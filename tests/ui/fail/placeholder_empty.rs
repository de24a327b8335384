#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order:{}")]
async fn pay(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:{}")]
async fn nothing() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
