//! Mistakes in what a function returns as its future are reported in its body.
use std::pin::Pin;

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order:{id}")]
fn wrong_output(id: u64) -> impl Future<Output = Result<u64, LockError>> {
    async move { Ok(id.to_string()) }
}

#[distributed_lock(key = "order:{id}")]
fn wrong_box(id: u64) -> Pin<Box<dyn Future<Output = Result<u64, LockError>>>> {
    Box::pin(async move { Ok(id.to_string()) })
}

#[distributed_lock(key = "order:{id}")]
fn no_future(id: u64) -> impl Future<Output = Result<u64, LockError>> {
    Ok(id)
}

fn main() {}
