//! Where balances are: SQLite, in memory or in a file that several processes share.
//!
//! A lock ends when its lease does, also under a process that sleeps and does not know. So the
//! database has the last word: with every balance it keeps the highest fencing token that it has
//! seen, and refuses what comes with a lower one.

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

/// Reads under a lock, and shuts out every earlier holder: one that wrote after this read would
/// otherwise be overwritten by what is made of it.
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

/// How long to wait for another process that has the database.
const PATIENCE: Duration = Duration::from_secs(5);

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.execute_batch(TABLE)
}

/// A balance for every order, zero to begin with.
#[derive(Clone)]
pub(crate) struct Ledger(Arc<Mutex<Connection>>);

impl Ledger {
    /// Without a path it is in memory.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, OrderError> {
        let connection = match path {
            Some(path) => Connection::open(path)?,
            None => Connection::open_in_memory()?,
        };
        connection.busy_timeout(PATIENCE)?;
        // Two processes may be creating the file right now. SQLite does not wait for the other when both
        // change the mode: each would wait for what the other has.
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

    /// For whoever only wants to see it.
    pub(crate) async fn balance(&self, order: &str) -> Result<u64, OrderError> {
        let order = order.to_owned();
        let found = self.one("SELECT cents FROM orders WHERE id = ?1", (order,)).await?;
        Ok(found.unwrap_or_default())
    }

    /// The balance that the holder of `token` goes on from. Earlier holders write nothing any more.
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

    /// Writes a balance whoever has been here: what `LOCKS=off` shows the price of.
    pub(crate) async fn write_unfenced(&self, order: &str, cents: u64) -> Result<(), OrderError> {
        self.one(WRITE_UNFENCED, (order.to_owned(), cents)).await.map(drop)
    }

    /// The number in the only row that a statement gives, if it gives one.
    ///
    /// A statement that has begun is finished, also when the future is dropped, as when a lock is
    /// lost. That is one way in which a write can be late.
    async fn one<P>(&self, sql: &'static str, params: P) -> Result<Option<u64>, OrderError>
    where
        P: Params + Send + 'static,
    {
        let connection = Arc::clone(&self.0).lock_owned().await;
        let row = tokio::task::spawn_blocking(move || {
            // To the last row: with that the statement is committed, or its error known.
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
