#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

async fn no_arguments() -> Result<u64, LockError> {
    Ok(0)
}

async fn other_type(id: u64) -> Option<u64> {
    Some(id)
}

fn not_async(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "a", on_busy = fallback(no_arguments))]
async fn arguments(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "a", on_busy = fallback(other_type))]
async fn output(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "a", on_busy = fallback(not_async))]
async fn sync(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "a", on_busy = fallback(nowhere))]
async fn unknown(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
