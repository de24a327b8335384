//! Where balances are: SQLite, in memory or in a file that several processes share.
//!
//! A lock ends with its lease, even if its process is paused and does not notice. So the database
//! decides: with every balance it stores the highest fencing token that it has seen, and refuses a
//! write with a lower one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lock_runtime::FencingToken;
use rusqlite::{Connection, ErrorCode, Params};
use tokio::sync::Mutex;

use crate::error::OrderError;
use crate::observe::WRITES_REFUSED;

const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS orders (
        id    TEXT PRIMARY KEY,
        cents INTEGER NOT NULL,
        fence INTEGER NOT NULL
    ) STRICT";

/// Reads under a lock, and excludes every earlier holder: the write that follows this read would
/// otherwise overwrite a write that an earlier holder makes in between.
const BEGIN: &str = "
    INSERT INTO orders (id, cents, fence) VALUES (?1, 0, ?2)
    ON CONFLICT (id) DO UPDATE SET fence = excluded.fence WHERE excluded.fence >= fence
    RETURNING cents";

const WRITE: &str = "
    INSERT INTO orders (id, cents, fence) VALUES (?1, ?3, ?2)
    ON CONFLICT (id) DO UPDATE SET cents = excluded.cents, fence = excluded.fence
        WHERE excluded.fence >= fence
    RETURNING cents";

const WRITE_UNFENCED: &str = "
    INSERT INTO orders (id, cents, fence) VALUES (?1, ?2, 0)
    ON CONFLICT (id) DO UPDATE SET cents = excluded.cents
    RETURNING cents";

/// How long to wait for another process that has locked the database.
const PATIENCE: Duration = Duration::from_secs(5);

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.execute_batch(TABLE)
}

/// The balance of every order, initially zero.
#[derive(Clone)]
pub(crate) struct Ledger(Arc<Mutex<Connection>>);

impl Ledger {
    /// Opens the file, or a database in memory if there is no path.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, OrderError> {
        let connection = match path {
            Some(path) => Connection::open(path)?,
            None => Connection::open_in_memory()?,
        };
        connection.busy_timeout(PATIENCE)?;
        // Two processes may create the file at the same moment. SQLite does not wait when both change the
        // mode, because each would wait for the other.
        let mut tries = 500;
        while let Err(error) = prepare(&connection) {
            tries -= 1;
            if error.sqlite_error_code() != Some(ErrorCode::DatabaseBusy) || tries == 0 {
                return Err(error.into());
            }
            std::thread::sleep(PATIENCE / 500);
        }
        Ok(Self(Arc::new(Mutex::new(connection))))
    }

    /// Reads a balance without a lock.
    pub(crate) async fn balance(&self, order: &str) -> Result<u64, OrderError> {
        let order = order.to_owned();
        let found = self.one("SELECT cents FROM orders WHERE id = ?1", (order,)).await?;
        Ok(found.unwrap_or_default())
    }

    /// Reads the balance for the holder of `token`. From now on the writes of earlier holders are refused.
    pub(crate) async fn begin(&self, order: &str, token: FencingToken) -> Result<u64, OrderError> {
        let found = self.one(BEGIN, (order.to_owned(), token.get())).await?;
        found.ok_or_else(|| stale(order, token))
    }

    /// Writes a balance, unless a later holder has been here.
    pub(crate) async fn write(
        &self,
        order: &str,
        cents: u64,
        token: FencingToken,
    ) -> Result<(), OrderError> {
        let written = self.one(WRITE, (order.to_owned(), token.get(), cents)).await?;
        written.map(drop).ok_or_else(|| stale(order, token))
    }

    /// Writes a balance without a check, for `LOCKS=off`.
    pub(crate) async fn write_unfenced(&self, order: &str, cents: u64) -> Result<(), OrderError> {
        self.one(WRITE_UNFENCED, (order.to_owned(), cents)).await.map(drop)
    }

    /// Returns the number in the only row of a statement's result, if there is one.
    ///
    /// A statement that has started also finishes if the future is dropped, for example because the
    /// lock is lost. That is one way in which a write can be late.
    async fn one<P>(&self, sql: &'static str, params: P) -> Result<Option<u64>, OrderError>
    where
        P: Params + Send + 'static,
    {
        let connection = Arc::clone(&self.0).lock_owned().await;
        let row = tokio::task::spawn_blocking(move || {
            // Reads to the last row: the statement is then committed, or its error known.
            connection.prepare_cached(sql)?.query_map(params, |row| row.get(0))?.last().transpose()
        });
        Ok(row.await??)
    }
}

fn stale(order: &str, token: FencingToken) -> OrderError {
    metrics::counter!(WRITES_REFUSED).increment(1);
    tracing::warn!(?order, %token, "a late write is refused, a later holder has been here");
    OrderError::Stale
}
