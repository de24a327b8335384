#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order:{nr}", wait = "2", lease = "10ms", on_busy = ignore)]
fn pay(id: u64) -> Result<(), LockError> {
    Ok(())
}

// The function is still there, so that its callers have no errors of their own.
fn main() {
    let _ = pay(1);
}
