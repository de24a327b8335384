//! Database transactions that a late holder of a distributed lock cannot commit.
//!
#![cfg_attr(feature = "sqlite", doc = "```")]
#![cfg_attr(not(feature = "sqlite"), doc = "```ignore")]
//! use lock_sqlx::Fence;
//! # use lock_runtime::{LockClient, LockGuard};
//! # use sqlx::SqlitePool;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let pool = SqlitePool::connect("sqlite::memory:").await?;
//! # lock_sqlx::migrate(&pool).await?;
//! # sqlx::raw_sql("CREATE TABLE accounts (id INTEGER, cents INTEGER)").execute(&pool).await?;
//! # let hold = LockClient::in_memory().mutex("account:7").lock().await?;
//!
//! let mut tx = pool.begin().await?;
//! hold.fence(&mut tx).await?; // the first statement
//! sqlx::query("UPDATE accounts SET cents = cents - 100 WHERE id = 7").execute(&mut *tx).await?;
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A lock in Redis is a lease. A holder that is paused, by swap, a suspended machine or a slow disk, can wake after its lease has
//! ended and write what it computed long ago. Every hold of [`lock_runtime`] has a [token](lock_runtime::FencingToken) that is greater
//! than those of all earlier holds; [`fence`](Fence::fence) lets the database compare them.
//!
//! # What it promises
//!
//! After `fence` returned `Ok`, the transaction commits before the `fence` of any later hold of the same name returns, or not at all.
//! A hold whose token is below one that has fenced gets [`FenceError::Stale`]. So the protection begins with the later hold's fence, not
//! with its acquire. This holds at each isolation level, and for every write of the transaction, whichever library issues it.
//!
//! # How to use it
//!
//! - **Fence first.** What a transaction has read before its fence may be old. If another hold has fenced in between, SQLite refuses the
//!   fence, and so does PostgreSQL above READ COMMITTED; at READ COMMITTED and in MySQL nothing notices. In MySQL do not begin WITH
//!   CONSISTENT SNAPSHOT, which reads at once.
//! - **Read what you change in a fenced transaction**: in this one, or in an earlier one of the same hold. What was read before any
//!   fence may be changed afterwards by an earlier holder that is late.
//! - **Drop the transaction after any error**, as `?` does; of a connection outside of a pool call `tx.rollback().await`, since sqlx sends
//!   the rollback of a dropped one with the next use of the connection, and later holders wait until then. After a deadlock MySQL has rolled everything back, the fence
//!   included, and runs what follows without a transaction. A statement that commits, such as COMMIT itself or, in MySQL, CREATE TABLE, also ends the
//!   fence. A `fence` in a transaction that has ended is [`FenceError::Ended`].
//! - **A nested transaction that is rolled back takes its fence with it.** Fence the outer one.
//! - **A fence waits for each other open transaction that has fenced the name** (in SQLite: that has written), also for one of the same
//!   hold: inside of a fenced transaction pass it on, and do not begin another. It also waits for one whose process is paused. Bound this: in PostgreSQL with
//!   `idle_in_transaction_session_timeout` for the earlier one and `statement_timeout` or `lock_timeout` for the later one, in MySQL with
//!   `wait_timeout` (in MariaDB `idle_transaction_timeout`) and `innodb_lock_wait_timeout`, in SQLite with `busy_timeout` (5 s in sqlx; the
//!   lock of a paused process lasts until it ends).
//! - **Two holds in one transaction** can wait for each other if another transaction fences them in the other order: the database
//!   ends one of the two, which can be repeated. A multi lock of both names has one order.
//! - **All holders of a name use one table**, in one schema, on the one primary that takes the writes. The promise ends there: in a cluster
//!   with several primaries, as of Galera, the lock of a row is known to one of them.
//!
//! `Stale` stays where the stored token is ahead of all new ones: the Redis server was replaced by one whose clock is behind, or two
//! servers have locks of the same names. `newest`, in microseconds since 1970, is then later than now. Once nobody holds the lock, delete
//! its row; give each Redis server's locks a namespace of their own.
//!
//! # The table
//!
//! [`migrate`] creates it. The text is [`FenceDatabase::MIGRATION`], and a file for each database in
//! [`migrations`](https://github.com/distributed-lock-rs/distributed-lock/tree/main/lock-sqlx/migrations), for tools that keep
//! migrations themselves:
//!
//! | tool | what to do |
//! |---|---|
//! | sqlx | `sqlx migrate add lock_fences`, and copy the text into the new file |
//! | refinery | copy the file as `migrations/V7__lock_fences.sql`, with your next number |
//! | diesel | `diesel migration generate lock_fences`, copy the text into `up.sql`, and write `DROP TABLE lock_fences` into `down.sql` |
//! | sea-orm | `manager.get_connection().execute_unprepared(Postgres::MIGRATION).await?` in `up` |
//!
//! A row is small, and there is one for each name that was ever fenced: see [`prune`]. A fence needs the rights to select, insert and
//! update in it, `prune` also to delete.
//!
//! # Features
//!
//! - `postgres`, `mysql` (also MariaDB), `sqlite`: the databases. None by default.
//! - `metrics`: counts [`FENCE_TOTAL`].
//! - `tracing` (default): a span `lock.fence` at level `DEBUG` of target `lock_sqlx`, with the fields `lock.name` (several names are
//!   separated by commas), `lock.token` and `lock.outcome`, which is the label of [`FENCE_TOTAL`].
//!
//! sqlx's runtime and TLS are yours to choose. Version 0.1 of this crate is for sqlx 0.9.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod database;
mod error;
mod observe;

use std::time::Duration;

use lock_runtime::FencingToken;
use lock_runtime::fence::{Fenced, Fences};
use sqlx::{Pool, Transaction};
use tracing::Instrument;

pub use self::database::FenceDatabase;
pub use self::error::FenceError;
pub use self::observe::FENCE_TOTAL;

/// Fences transactions: a method of everything with names and a token, such as [`LockGuard`](lock_runtime::LockGuard),
/// [`LockWatch`](lock_runtime::guard::LockWatch) and the `HeldLock` of `lock-tower`.
pub trait Fence: Fenced {
    /// Protects the writes of a transaction from earlier holds, and those of later holds from this transaction. Call it before the
    /// first statement: see [how to use it](crate#how-to-use-it).
    ///
    /// After `Ok` the transaction commits before the `fence` of any later hold of the same name returns, or not at all. Waits while
    /// another transaction is open that has fenced the name. Several names are fenced one after the other, sorted.
    ///
    /// It takes one round trip for each name. The same hold may fence any number of transactions, one after the other.
    ///
    /// # Errors
    ///
    /// - [`FenceError::Stale`]: a hold with a greater token has fenced.
    /// - [`FenceError::NotExclusive`]: others may have this hold too. The database was not asked.
    /// - [`FenceError::Ended`]: the database is in no transaction. It was not written to.
    /// - [`FenceError::NoTable`], [`FenceError::NameTooLong`]: the table is missing, or is not that of the migration.
    /// - [`FenceError::Sql`]: the database failed. Serialization failures, deadlocks and timeouts come as sqlx reports them.
    ///
    /// # Cancel safety
    ///
    /// A dropped call leaves what a dropped query of sqlx leaves: the transaction may be fenced or not. Drop the transaction, too.
    ///
    /// # Examples
    ///
    /// A retry for transactions that the database could not put in order. The error of the hold itself ends it:
    ///
    #[cfg_attr(feature = "sqlite", doc = "```")]
    #[cfg_attr(not(feature = "sqlite"), doc = "```ignore")]
    /// use lock_runtime::{LockClient, LockGuard};
    /// use lock_sqlx::{Fence, FenceError};
    /// use sqlx::SqlitePool;
    ///
    /// async fn take(pool: &SqlitePool, hold: &LockGuard) -> Result<(), FenceError> {
    ///     let mut tx = pool.begin().await?;
    ///     hold.fence(&mut tx).await?;
    ///     sqlx::query("UPDATE stock SET pieces = pieces - 1").execute(&mut *tx).await?;
    ///     Ok(tx.commit().await?)
    /// }
    ///
    /// async fn take_with_retry(pool: &SqlitePool, hold: &LockGuard) -> Result<(), FenceError> {
    ///     for _ in 0..4 {
    ///         match take(pool, hold).await {
    ///             // SQLITE_BUSY and its variants. In PostgreSQL 40001 and 40P01, in MySQL 40001.
    ///             Err(FenceError::Sql(sqlx::Error::Database(error)))
    ///                 if matches!(error.code().as_deref(), Some("5" | "261" | "517")) => {}
    ///             done => return done,
    ///         }
    ///     }
    ///     take(pool, hold).await
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = SqlitePool::connect("sqlite::memory:").await?;
    /// # lock_sqlx::migrate(&pool).await?;
    /// # sqlx::raw_sql("CREATE TABLE stock (pieces INTEGER)").execute(&pool).await?;
    /// let hold = LockClient::in_memory().mutex("stock").lock().await?;
    /// take_with_retry(&pool, &hold).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A pool or a connection is in no transaction, and does not compile:
    ///
    #[cfg_attr(feature = "sqlite", doc = "```compile_fail,E0308")]
    #[cfg_attr(not(feature = "sqlite"), doc = "```ignore")]
    /// # async fn fence(mut pool: sqlx::SqlitePool, hold: lock_runtime::LockGuard) -> Result<(), lock_sqlx::FenceError> {
    /// # use lock_sqlx::Fence;
    /// hold.fence(&mut pool).await
    /// # }
    /// ```
    ///
    #[cfg_attr(feature = "sqlite", doc = "```compile_fail,E0308")]
    #[cfg_attr(not(feature = "sqlite"), doc = "```ignore")]
    /// # async fn fence(pool: sqlx::SqlitePool, hold: lock_runtime::LockGuard) -> Result<(), lock_sqlx::FenceError> {
    /// # use lock_sqlx::Fence;
    /// let mut connection = pool.acquire().await?;
    /// hold.fence(&mut connection).await
    /// # }
    /// ```
    // S-37.
    fn fence<DB: FenceDatabase>(
        &self,
        tx: &mut Transaction<'_, DB>,
    ) -> impl Future<Output = Result<(), FenceError>> + Send {
        let fences = self.fences();
        async move {
            let span = observe::span(&fences);
            let fencing = async {
                let fences = fences?;
                raise(&fences, tx).await
            };
            let result = fencing.instrument(span.clone()).await;
            observe::ended(&span, &result);
            result
        }
    }
}

impl<H: Fenced + ?Sized> Fence for H {}

async fn raise<DB: FenceDatabase>(
    fences: &Fences,
    tx: &mut Transaction<'_, DB>,
) -> Result<(), FenceError> {
    let token = fences.token();
    let stored = i64::try_from(token.get()).map_err(|error| sqlx::Error::Encode(error.into()))?;
    for name in fences.names() {
        let newest = DB::raise(&mut **tx, name, stored).await?;
        if newest > stored {
            // A stored token is never negative: it is that of a hold.
            let newest = FencingToken::new(newest.unsigned_abs());
            return Err(FenceError::Stale { name: name.clone(), token, newest });
        }
    }
    Ok(())
}

/// Creates the table `lock_fences` unless it is there. Several programs may do so at once, and where the table is there no right to create
/// one is needed.
///
/// # Errors
///
/// Those of the database, such as a missing right to create tables.
///
/// # Cancel safety
///
/// A dropped call leaves the table there or not.
///
/// # Examples
///
#[cfg_attr(feature = "sqlite", doc = "```")]
#[cfg_attr(not(feature = "sqlite"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), sqlx::Error> {
/// let pool = sqlx::SqlitePool::connect("sqlite::memory:").await?;
/// lock_sqlx::migrate(&pool).await?;
/// lock_sqlx::migrate(&pool).await
/// # }
/// ```
pub async fn migrate<DB: FenceDatabase>(pool: &Pool<DB>) -> Result<(), sqlx::Error> {
    DB::create(&mut *pool.acquire().await?).await
}

/// Deletes the names that no hold has fenced for `older_than`, and returns how many it deleted.
///
/// A hold that waits to fence for longer than `older_than` is no longer refused: choose more than any process can be paused, such as
/// thirty days. A token is the time of the Redis server in microseconds. Its age counts from the newest token of the table, or from the
/// database's time if that is earlier: one clock that is ahead makes no token old.
///
/// Do not prune a table with tokens of Redisson's `RFencedLock` alone: those count from 1, and look old.
///
/// # Errors
///
/// Those of the database.
///
/// # Cancel safety
///
/// A dropped call has deleted some of these names, or all, or none.
///
/// # Examples
///
#[cfg_attr(feature = "sqlite", doc = "```")]
#[cfg_attr(not(feature = "sqlite"), doc = "```ignore")]
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), sqlx::Error> {
/// # let pool = sqlx::SqlitePool::connect("sqlite::memory:").await?;
/// # lock_sqlx::migrate(&pool).await?;
/// let days = |days: u64| Duration::from_secs(days * 24 * 60 * 60);
/// assert_eq!(lock_sqlx::prune(&pool, days(30)).await?, 0);
/// # Ok(())
/// # }
/// ```
pub async fn prune<DB: FenceDatabase>(
    pool: &Pool<DB>,
    older_than: Duration,
) -> Result<u64, sqlx::Error> {
    let age = i64::try_from(older_than.as_micros()).unwrap_or(i64::MAX);
    DB::prune(&mut *pool.acquire().await?, age).await
}
