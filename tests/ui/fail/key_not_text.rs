#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = 42)]
async fn literal() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = id)]
async fn expression(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
