//! The borrow checker speaks of the user's code.
use lock_runtime::{LockError, LockGuard, distributed_lock};

#[distributed_lock(key = "order:{name}")]
async fn moved(name: String) -> Result<String, LockError> {
    drop(name);
    Ok(name)
}

#[distributed_lock(key = name)]
async fn moved_into_the_key(name: String) -> Result<String, LockError> {
    Ok(name)
}

#[distributed_lock(key = "order:{name}", guard = hold)]
async fn not_mutable(name: String) -> Result<String, LockError> {
    name.push_str(hold.key().as_str());
    Ok(name)
}

#[distributed_lock(key = "order")]
async fn too_short<'a>(long: &'a str, short: &str) -> Result<&'a str, LockError> {
    Ok(if long.is_empty() { short } else { long })
}

#[distributed_lock(key = "nightly", guard = hold)]
async fn returned() -> Result<&'static LockGuard, LockError> {
    Ok(hold)
}

#[distributed_lock(key = "nightly", guard = hold)]
async fn spawned() -> Result<(), LockError> {
    tokio::spawn(async { hold.token() });
    Ok(())
}

#[distributed_lock(key = "nightly", guard = hold)]
fn plain_returned() -> Result<&'static LockGuard, LockError> {
    Ok(hold)
}

#[distributed_lock(key = "nightly", guard = hold)]
fn plain_spawned() -> Result<(), LockError> {
    std::thread::spawn(|| hold.token());
    Ok(())
}

fn main() {}
