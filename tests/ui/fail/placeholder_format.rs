#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order:{id:?}")]
async fn debug(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key("order:{:>8}", id))]
async fn padded(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
