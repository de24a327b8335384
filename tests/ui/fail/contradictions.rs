#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "a", guard = hold, when = id > 0)]
async fn guard_of_nothing(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "a", wait = forever, on_busy = skip)]
async fn never_skipped(id: u64) {}

#[distributed_lock(key = "a", wait = forever, on_busy = fallback(never_skipped))]
async fn never_replaced(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
