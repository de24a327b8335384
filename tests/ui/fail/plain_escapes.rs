use lock_runtime::LockGuard;
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", guard = hold)]
fn returned() -> Result<&'static LockGuard, LockError> {
    Ok(hold)
}

#[distributed_lock(key = "nightly", guard = hold)]
fn spawned() -> Result<(), LockError> {
    std::thread::spawn(|| hold.token());
    Ok(())
}

fn main() {}
