//! A newtype of what is no key part: the error shows the field. A generic one is a part where its parameter is one.

use lock_runtime::{KeyPart, LockError, distributed_lock};

#[derive(KeyPart)]
struct Price(f64);

#[derive(KeyPart)]
struct Session {
    user: Option<u64>,
}

#[derive(Debug)]
struct OnlyDebug;

#[derive(KeyPart)]
struct Order(OnlyDebug);

#[derive(KeyPart)]
struct Generic<T>(Vec<T>);

#[derive(KeyPart)]
struct Id<T>(T);

#[distributed_lock(key = "price:{id}")]
async fn price(id: Id<f64>) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
