//! The borrow checker speaks of the user's code.
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order:{name}")]
async fn moved(name: String) -> Result<String, LockError> {
    drop(name);
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

fn main() {}
