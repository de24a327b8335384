//! Where an annotated function finds its client. A program of its own: it installs one for the process.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use lock_runtime::{LockClient, LockError, LockGuard, distributed_lock};

#[distributed_lock(key = "whoever", guard = hold)]
async fn anybody() -> Result<String, LockError> {
    fn name(hold: &LockGuard) -> String {
        hold.key().to_string()
    }
    Ok(name(hold))
}

/// S-32: the enclosing scope's client, else the installed one, else an error that says what to do.
#[tokio::test(start_paused = true)]
async fn the_client_is_found() {
    let error = anybody().await.unwrap_err();
    assert!(matches!(error, LockError::NoClient { .. }), "{error:?}");
    assert!(error.to_string().contains("anybody") && error.to_string().contains("install()"));
    let in_namespace = |name| LockClient::builder().namespace(name).in_memory().unwrap();
    in_namespace("installed").install();
    assert_eq!(anybody().await.unwrap(), "installed:whoever");
    let scoped = in_namespace("scoped");
    assert_eq!(scoped.scope(anybody()).await.unwrap(), "scoped:whoever");
    assert_eq!(anybody().await.unwrap(), "installed:whoever");
    in_namespace("another").install();
    assert_eq!(anybody().await.unwrap(), "another:whoever");
}
