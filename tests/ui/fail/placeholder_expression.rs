#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order:{id + 1}")]
async fn pay(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
