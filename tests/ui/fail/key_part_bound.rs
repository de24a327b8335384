//! A generic newtype is a part where its parameter is one.

use lock_runtime::{KeyPart, LockError, distributed_lock};

#[derive(KeyPart)]
struct Id<T>(T);

#[distributed_lock(key = "price:{id}")]
async fn price(id: Id<f64>) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
