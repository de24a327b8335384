#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "price:{price}")]
async fn float(price: f64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key("user:{}", user.as_ref()))]
async fn option(user: Option<String>) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
