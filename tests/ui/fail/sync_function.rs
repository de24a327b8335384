use std::pin::Pin;

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly")]
fn plain() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly")]
fn nothing() {}

#[distributed_lock(key = "nightly")]
const fn constant() -> u64 {
    1
}

type Boxed = Pin<Box<dyn Future<Output = Result<(), LockError>> + Send>>;

#[distributed_lock(key = "nightly")]
fn a_future_or_not() -> Result<Boxed, LockError> {
    Ok(Box::pin(async { Ok(()) }))
}

#[distributed_lock(key = "nightly")]
fn not_pinned() -> Box<dyn Future<Output = Result<(), LockError>> + Unpin> {
    Box::new(std::future::ready(Ok(())))
}

fn main() {}
