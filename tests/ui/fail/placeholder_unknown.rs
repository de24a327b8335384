#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

struct Order {
    id: u64,
}

#[distributed_lock(key = "order:{ordr.id}")]
async fn misspelt(order: &Order, tenant: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:{self.id}")]
async fn no_self(order: &Order) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:{id}")]
async fn unnamed(_: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
