#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "a", when = id)]
async fn number(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "a", when = locked)]
async fn reference(locked: &bool) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "a", condition = id > 0)]
async fn by_another_name(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
