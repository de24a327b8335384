#![deny(unused_variables)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "account:{id}", guard = hold)]
async fn post(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
