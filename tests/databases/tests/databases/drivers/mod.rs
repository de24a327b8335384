//! The helpers of `docs/fencing-drivers.md` for programs without sqlx, on real databases.

mod with_diesel_async;
mod with_rusqlite;
mod with_sea_orm;
mod with_tokio_postgres;

use std::error::Error;

/// Checks what a helper answered to a late hold: no `E`, the error of its driver.
fn is_refused<E: Error + 'static>(result: Result<(), Box<dyn Error + Send + Sync>>) {
    let error = result.unwrap_err();
    assert!(error.to_string().contains("a later hold of account:7 has fenced"), "{error}");
    assert!(!error.is::<E>(), "{error:?}");
}
