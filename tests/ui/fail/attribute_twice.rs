#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "from:{from}")]
#[distributed_lock(key = "to:{to}")]
async fn transfer(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
