//! Fences on SQLite: which transactions commit, which are refused, and what is said.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod observe;
mod order;
mod table;
mod wrong_use;

use std::time::Duration;

use lock_runtime::guard::LockWatch;
use lock_runtime::{LockClient, LockGuard};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{Sqlite, SqlitePool, Transaction};
use tempfile::TempDir;

/// More than anything here takes on a busy machine.
const BOUND: Duration = Duration::from_secs(30);

/// A file with the table of fences and a table `notes`, and connections that wait for each other.
struct Database {
    folder: TempDir,
    pool: SqlitePool,
}

impl Database {
    async fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool(&folder, 4).await;
        Self { folder, pool }
    }

    async fn start() -> Self {
        let database = Self::empty().await;
        lock_sqlx::migrate(&database.pool).await.unwrap();
        sqlx::raw_sql("CREATE TABLE notes (note TEXT UNIQUE)")
            .execute(&database.pool)
            .await
            .unwrap();
        database
    }

    async fn begin(&self) -> Transaction<'static, Sqlite> {
        self.pool.begin().await.unwrap()
    }

    /// All fences, sorted by name.
    async fn fences(&self) -> Vec<(String, i64)> {
        let all = sqlx::query_as("SELECT name, token FROM lock_fences ORDER BY name");
        all.fetch_all(&self.pool).await.unwrap()
    }

    async fn notes(&self) -> Vec<String> {
        let all = sqlx::query_scalar("SELECT note FROM notes ORDER BY rowid");
        all.fetch_all(&self.pool).await.unwrap()
    }
}

/// Opens the file with so many connections.
async fn pool(folder: &TempDir, connections: u32) -> SqlitePool {
    let file = SqliteConnectOptions::new().filename(folder.path().join("test.db"));
    let file = file.create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
    let pool = SqlitePoolOptions::new().max_connections(connections);
    pool.connect_with(file.busy_timeout(BOUND)).await.unwrap()
}

async fn write(tx: &mut Transaction<'_, Sqlite>, note: &str) {
    sqlx::query("INSERT INTO notes VALUES ($1)")
        .bind(note.to_owned())
        .execute(&mut **tx)
        .await
        .unwrap();
}

/// A hold that is over, as a paused process still has it, and the next one of the same name.
async fn late_and_next(locks: &LockClient, name: &str) -> (LockWatch, LockGuard) {
    let guard = locks.mutex(name).lock().await.unwrap();
    let late = guard.watch();
    guard.release().await.unwrap();
    (late, locks.mutex(name).lock().await.unwrap())
}

fn stored(token: lock_runtime::FencingToken) -> i64 {
    token.get().try_into().unwrap()
}
