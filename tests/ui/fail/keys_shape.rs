#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = ["from:{from}", "to:{to}"])]
async fn list_in_key(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = "from:{from}")]
async fn text_in_keys(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = [])]
async fn empty(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys("from:{from}", "to:{to}"))]
async fn called(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ["from:{from}", "from:{from}"])]
async fn twice(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ["from:{from}", 7])]
async fn number(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ["from:{from}", ["to:{to}"]])]
async fn nested(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
