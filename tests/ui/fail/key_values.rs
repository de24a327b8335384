#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key("order:{}:{}", id))]
async fn too_few(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key("order:{}", id, id + 1))]
async fn too_many(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key("order:{id}", id))]
async fn named(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key(id, "order:{}"))]
async fn turned_round(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key())]
async fn empty(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
