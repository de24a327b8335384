//! Two holds of one name, the earlier of which is late.

use lock_runtime::guard::LockWatch;
use lock_runtime::{LockClient, LockGuard};

/// Returns a hold that has ended, and the hold that came after it.
pub(crate) async fn early_and_late(name: &str) -> (LockWatch, LockGuard) {
    let client = LockClient::in_memory();
    let first = client.mutex(name).lock().await.unwrap();
    let early = first.watch();
    first.release().await.unwrap();
    let late = client.mutex(name).lock().await.unwrap();
    assert!(early.token() < late.token());
    (early, late)
}
