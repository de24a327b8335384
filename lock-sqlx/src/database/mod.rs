//! [`FenceDatabase`], and what each database is asked.

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

pub(crate) use self::statements::Statements;

/// A database of sqlx that keeps fencing tokens: `Postgres`, `MySql` (also MariaDB) and `Sqlite`, each with the feature of its name.
///
/// # Examples
///
#[cfg_attr(feature = "sqlite", doc = "```")]
#[cfg_attr(not(feature = "sqlite"), doc = "```ignore")]
/// use lock_sqlx::FenceDatabase;
///
/// assert!(sqlx::Sqlite::MIGRATION.contains("CREATE TABLE IF NOT EXISTS lock_fences"));
/// ```
#[diagnostic::on_unimplemented(
    message = "`lock-sqlx` cannot fence transactions of `{Self}`",
    note = "enable the feature `postgres`, `mysql` or `sqlite` of `lock-sqlx`; `sqlx::Any` does not work"
)]
pub trait FenceDatabase: Statements {
    /// The statement that creates the table `lock_fences`, for migrations.
    const MIGRATION: &'static str;
}

/// Private, so that users can neither call nor implement [`Statements`](statements::Statements).
mod statements {
    use lock_runtime::LockKey;

    use crate::FenceError;

    /// What is asked of a database.
    pub trait Statements: sqlx::Database {
        /// Creates the table unless it is there.
        fn create(
            connection: &mut Self::Connection,
        ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

        /// Raises the token of the name to this one unless it is greater, and returns what it is now. The row is then locked until
        /// the transaction ends.
        // A token that is greater is written once more. That locks the row in every database, and this statement answers at once what
        // a second one would be needed for.
        fn raise(
            connection: &mut Self::Connection,
            name: &LockKey,
            token: i64,
        ) -> impl Future<Output = Result<i64, FenceError>> + Send;

        /// Deletes each name whose token is smaller by more than `age` than the greatest one, or than the database's time if that is
        /// smaller; all are in microseconds. Returns how many it deleted.
        fn prune(
            connection: &mut Self::Connection,
            age: i64,
        ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;
    }
}

/// Asks whether the table is there. A database first asks for the right to create it, and a second program may create it at the
/// same time.
#[cfg(any(feature = "mysql", feature = "postgres"))]
const LOOK: &str = "SELECT name, token FROM lock_fences LIMIT 0";

/// The digits of the name's bytes, for statements that take no parameters: no name can end a literal of such digits.
#[cfg(any(feature = "mysql", feature = "postgres"))]
fn hex(name: &lock_runtime::LockKey) -> String {
    name.as_str().bytes().map(|byte| format!("{byte:02x}")).collect()
}
