use lock_runtime::LockGuard;
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly")]
fn awaits() -> Result<(), LockError> {
    std::future::ready(()).await;
    Ok(())
}

#[distributed_lock(key = "nightly")]
fn tail() -> Result<u64, LockError> {
    Ok("text")
}

#[distributed_lock(key = "nightly", on_busy = fallback(not_now))]
fn with_an_async_fallback(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

async fn not_now(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "nightly", client = "redis://localhost")]
fn without_a_client() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "nightly", guard = hold)]
fn waits_for_the_guard() -> Result<(), LockError> {
    hold.lost()
}

fn main() {
    let _: fn(&LockGuard) = |_| ();
}
