//! The kinds of locks, taken in one way.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::num::NonZeroU32;

use lock_runtime::{LockClient, LockError, LockGuard, LockKind, LockOptions};

/// All that are taken and given back, by a word for each.
pub(crate) const KINDS: [(&str, LockKind); 5] = [
    ("mutex", LockKind::Mutex),
    ("fair", LockKind::Fair),
    ("read", LockKind::Read),
    ("write", LockKind::Write),
    ("semaphore", LockKind::Semaphore),
];

/// Takes a lock of that kind; of a semaphore the only permit.
pub(crate) async fn take(
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
            let semaphore = client.semaphore(name, NonZeroU32::MIN).with(options);
            semaphore.acquire().await.map(LockGuard::from)
        }
        _ => panic!("there is no kind {kind}"),
    }
}

/// Takes a lock of that kind whose name is the kind's.
pub(crate) async fn take_named(
    client: &LockClient,
    kind: &str,
    options: LockOptions,
) -> Result<LockGuard, LockError> {
    take(client, kind, kind, options).await
}
