//! [`FenceError`].

use lock_runtime::fence::NotExclusive;
use lock_runtime::{FencingToken, LockKey};

/// Why a transaction is not fenced.
///
/// Roll the transaction back after each of these: drop it, as `?` does.
///
/// # Examples
///
/// A serialization failure or a deadlock is an error of sqlx as before, so that a retry finds it. A late hold cannot be retried:
///
/// ```
/// use lock_sqlx::FenceError;
///
/// fn is_worth_a_retry(error: &FenceError) -> bool {
///     let FenceError::Sql(sqlx::Error::Database(error)) = error else { return false };
///     // A serialization failure or a deadlock; 40001 is both in MySQL.
///     matches!(error.code().as_deref(), Some("40001" | "40P01"))
/// }
///
/// assert!(!is_worth_a_retry(&FenceError::Sql(sqlx::Error::RowNotFound)));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// A hold of this name with a greater token has fenced: usually this one was lost. If every new
    /// hold gets this, see [how to use it](crate#how-to-use-it).
    #[error(
        "the hold of {name:?} is late: its token is {token}, and a hold with {newest} has fenced since; roll back, and acquire the \
         lock again if the work is still to be done"
    )]
    Stale {
        /// The full name of the lock.
        name: LockKey,
        /// The token of this hold.
        token: FencingToken,
        /// The greatest token that has fenced.
        newest: FencingToken,
    },
    /// Others may have this hold at the same time.
    #[error(transparent)]
    NotExclusive(#[from] NotExclusive),
    /// The database is not in the transaction of which sqlx knows: it rolled it back, as MySQL does after a deadlock and SQLite after
    /// some failures, or a statement committed it.
    #[error(
        "the database has already ended the transaction that fences {name:?}, after an earlier error or by a statement such as COMMIT; \
         drop it and begin another"
    )]
    Ended {
        /// The full name of the lock.
        name: LockKey,
    },
    /// The database has no table `lock_fences`.
    #[error(
        "the database has no table `lock_fences`; create it with `lock_sqlx::migrate`, or by a migration with the text of \
         `lock_sqlx::FenceDatabase::MIGRATION`"
    )]
    NoTable(#[source] sqlx::Error),
    /// The column `name` of a table that was made in another way is too short.
    #[error(
        "the name {name:?} of {} bytes is too long for the column `lock_fences.name`; make the column as long as in \
         `lock_sqlx::FenceDatabase::MIGRATION`",
        .name.as_str().len()
    )]
    NameTooLong {
        /// The full name of the lock.
        name: LockKey,
    },
    /// The database failed. `?` also makes this of the errors of your own statements.
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
}
