//! The kinds of locks, taken in one way.

pub(crate) use lock_tests::take;

use crate::prelude::*;

/// All that are taken and given back, by a word for each.
pub(crate) const KINDS: [(&str, HoldKind); 5] = [
    ("mutex", HoldKind::Mutex),
    ("fair", HoldKind::Fair),
    ("read", HoldKind::Read),
    ("write", HoldKind::Write),
    ("semaphore", HoldKind::Semaphore),
];

/// Takes a lock of that kind whose name is the kind's.
pub(crate) async fn take_named(
    client: &LockClient,
    kind: &str,
    options: LockOptions,
) -> Result<LockGuard, LockError> {
    take(client, kind, kind, options).await
}

/// All kinds, and several locks at once: of one store, and part by part.
pub(crate) const KINDS_AND_SEVERAL: [&str; 8] =
    ["mutex", "fair", "read", "write", "semaphore", "multi", "several fair", "several write"];

/// Takes one of [`KINDS_AND_SEVERAL`].
pub(crate) async fn take_one_or_several(
    client: &LockClient,
    kind: &str,
    name: &str,
    options: LockOptions,
) -> Result<LockGuard, LockError> {
    let names = ["a", "b"].map(|part| format!("{name}-{part}"));
    match kind {
        "multi" => client.multi_lock(names).with(options).lock().await,
        "several fair" => client.any_lock(LockKind::Fair, names).with(options).lock().await,
        "several write" => client.any_lock(LockKind::Write, names).with(options).lock().await,
        kind => take(client, kind, name, options).await,
    }
}

/// What excludes a lock of that kind.
pub(crate) fn rival(kind: &str) -> &str {
    // Readers do not exclude each other.
    if kind == "read" { "write" } else { kind }
}

/// Two clients of one store in memory, as two processes would have them.
pub(crate) fn two_in_memory() -> (LockClient, LockClient) {
    let store = MemoryStore::new();
    let client = |store| LockClient::builder().store(store).unwrap();
    (client(store.peer()), client(store))
}
