use std::pin::Pin;

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly")]
fn plain() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly")]
fn future() -> impl Future<Output = Result<(), LockError>> {
    async { Ok(()) }
}

#[distributed_lock(key = "nightly")]
fn boxed() -> Pin<Box<dyn Future<Output = Result<(), LockError>>>> {
    Box::pin(async { Ok(()) })
}

#[distributed_lock(key = "nightly")]
const fn constant() -> u64 {
    1
}

fn main() {}
