#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock("order:{id}")]
async fn pay(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
