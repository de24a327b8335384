//! The helpers of `docs/fencing-drivers.md` for programs without sqlx, on real databases.

mod with_diesel_async;
mod with_rusqlite;
mod with_sea_orm;
mod with_tokio_postgres;

use std::error::Error;

/// Checks what a helper answered to a late hold.
fn is_refused(result: Result<(), Box<dyn Error + Send + Sync>>) {
    let error = result.unwrap_err().to_string();
    assert!(error.contains("a later hold of account:7 has fenced"), "{error}");
}
