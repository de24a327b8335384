use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly")]
fn nothing() {}

#[distributed_lock(key = "nightly")]
fn number() -> u64 {
    1
}

#[distributed_lock(key = "nightly", on_busy = skip)]
fn skips() -> Result<u64, LockError> {
    Ok(1)
}

fn main() {}
