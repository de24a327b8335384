#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order:{tenant}-{id}")]
async fn pay(tenant: &str, id: &str) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
