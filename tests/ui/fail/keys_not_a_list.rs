#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(keys = ids)]
async fn no_list(ids: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ids)]
async fn no_texts(ids: Vec<u64>) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ["all", id])]
async fn no_text(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
