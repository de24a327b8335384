#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "shop", client = clent)]
async fn misspelt(client: lock_runtime::LockClient) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "shop", client = "redis://127.0.0.1")]
async fn address() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "shop", redis = client)]
async fn by_another_name(client: lock_runtime::LockClient) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
