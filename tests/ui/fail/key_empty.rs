#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "")]
async fn pay() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
