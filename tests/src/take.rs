//! Locks of every kind, acquired in one way.

use lock_runtime::{LockClient, LockError, LockGuard, LockOptions};

/// Acquires a lock of the kind that this word means; of a semaphore the only permit.
///
/// Panics when there is no such kind.
///
/// # Errors
///
/// The error of the acquire.
///
/// # Cancel safety
///
/// That of the acquire.
pub async fn take(
    client: &LockClient,
    kind: &str,
    name: &str,
    options: LockOptions,
) -> Result<LockGuard, LockError> {
    match kind {
        "mutex" => client.mutex(name).with(options).lock().await,
        "fair" => client.fair_mutex(name).with(options).lock().await,
        "read" => client.rw_lock(name).with(options).read().await,
        "write" => client.rw_lock(name).with(options).write().await,
        "semaphore" => {
            let semaphore = client.semaphore(name, 1).with(options);
            semaphore.acquire().await
        }
        _ => panic!("there is no kind {kind}"),
    }
}
