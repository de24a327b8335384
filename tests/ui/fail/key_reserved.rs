#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "redisson_lock_token:{{{id}}}")]
async fn prefix(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key("order:{{{}}}:timeout", id))]
async fn ending(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ["order:{id}", "redisson_rwlock:{id}"])]
async fn one_of_several(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "my:redisson_lock_token:{id}:timeout")]
async fn fine(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
