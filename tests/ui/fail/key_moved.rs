#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = name)]
async fn greet(name: String) -> Result<String, LockError> {
    Ok(name)
}

fn main() {}
