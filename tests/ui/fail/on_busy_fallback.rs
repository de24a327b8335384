#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

async fn cached(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "a", on_busy = fallback)]
async fn no_path(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "a", on_busy = fallback("cached"))]
async fn quoted(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "a", on_busy = fallback(cached(id)))]
async fn called(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "a", on_busy = fallback(cached, cached))]
async fn two(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "a", on_busy = fallback(cached))]
async fn no_name((id, _): (u64, u64)) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "a", on_busy = fallback(cached))]
async fn ignored(_: u64) -> Result<u64, LockError> {
    Ok(0)
}

#[distributed_lock(key = "a", on_busy = fallback(cached))]
async fn on_some_systems(id: u64, #[cfg(unix)] user: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "a", fallback = cached)]
async fn as_an_argument(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
