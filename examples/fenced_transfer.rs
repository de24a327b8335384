//! A process that is paused past its lease wakes up and writes what it computed long ago. Without a fence money is lost.
//!
//! ```sh
//! cargo run --example fenced_transfer
//! REDIS_URL=redis://127.0.0.1:6379 cargo run --example fenced_transfer    # the same through a Redis
//! ```
//!
//! A transfer reads two balances, asks a slow service, and writes the new balances, all under the locks of both accounts. The
//! database is SQLite, in a file. What it costs to be safe is the line `hold.fence(&mut tx).await?` in each transaction.

use std::error::Error;
use std::time::Duration;

use lock_runtime::{LockClient, LockError, LockGuard, MemoryStore};
use lock_sqlx::{Fence, FenceError};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};
use sqlx::{Sqlite, Transaction};

/// Not renewed, as that of a process that is stopped is not.
const LEASE: Duration = Duration::from_millis(500);

/// A transfer that has read its balances and has not written them.
struct Transfer<'a> {
    bank: &'a Bank,
    hold: LockGuard,
    from: (&'a str, i64),
    to: (&'a str, i64),
}

struct Bank {
    pool: SqlitePool,
    is_fenced: bool,
}

impl Bank {
    async fn begin(&self, hold: &LockGuard) -> Result<Transaction<'static, Sqlite>, FenceError> {
        let mut tx = self.pool.begin().await?;
        if self.is_fenced {
            hold.fence(&mut tx).await?;
        }
        Ok(tx)
    }

    /// Waits for the locks of both accounts, and reads.
    async fn start<'a>(
        &'a self,
        locks: &LockClient,
        from: &'a str,
        to: &'a str,
    ) -> Result<Transfer<'a>, Box<dyn Error>> {
        let names = [from, to].map(|account| format!("account:{account}"));
        let hold = locks.multi_lock(names).lease(LEASE).lock().await?;
        let mut tx = self.begin(&hold).await?;
        let (from, to) = ((from, cents(&mut tx, from).await?), (to, cents(&mut tx, to).await?));
        tx.commit().await?;
        Ok(Transfer { bank: self, hold, from, to })
    }

    async fn total(&self) -> Result<i64, sqlx::Error> {
        sqlx::query_scalar("SELECT SUM(cents) FROM accounts").fetch_one(&self.pool).await
    }
}

async fn cents(tx: &mut Transaction<'_, Sqlite>, account: &str) -> Result<i64, sqlx::Error> {
    let cents = sqlx::query_scalar("SELECT cents FROM accounts WHERE name = $1");
    cents.bind(account.to_owned()).fetch_one(&mut **tx).await
}

impl Transfer<'_> {
    /// Writes.
    async fn finish(self, amount: i64) -> Result<(), FenceError> {
        let mut tx = self.bank.begin(&self.hold).await?;
        let ((from, has), (to, had)) = (self.from, self.to);
        for (account, cents) in [(from, has - amount), (to, had + amount)] {
            let update = sqlx::query("UPDATE accounts SET cents = $1 WHERE name = $2");
            update.bind(cents).bind(account.to_owned()).execute(&mut *tx).await?;
        }
        Ok(tx.commit().await?)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (one, other) = two_processes().await?;
    let folder = tempfile::tempdir()?;
    for (name, is_fenced) in [("without", false), ("with", true)] {
        let file = SqliteConnectOptions::new().filename(folder.path().join(name));
        let pool = SqlitePool::connect_with(file.create_if_missing(true)).await?;
        lock_sqlx::migrate(&pool).await?;
        let accounts = "CREATE TABLE accounts (name TEXT PRIMARY KEY, cents INTEGER NOT NULL);
                        INSERT INTO accounts VALUES ('ada', 1000), ('bob', 1000), ('eve', 1000)";
        sqlx::raw_sql(accounts).execute(&pool).await?;
        let bank = Bank { pool, is_fenced };

        // Ada pays Bob. Here that process is stopped: its task does not go on, and its lease ends.
        let paused = bank.start(&one, "ada", "bob").await?;
        // Eve pays Bob, by another process, which waits for that.
        bank.start(&other, "eve", "bob").await?.finish(50).await?;
        // The first process goes on.
        match paused.finish(100).await {
            Ok(()) => println!("{name} a fence, the late transfer is written"),
            Err(refused) => println!("{name} a fence, the late transfer is refused: {refused}"),
        }
        println!("{name} a fence: 3000 cents before, {} after", bank.total().await?);
    }
    for client in [one, other] {
        client.shutdown(Duration::from_secs(5)).await;
    }
    Ok(())
}

/// Two clients, as two processes would have them: of the Redis at `REDIS_URL`, or of one store in memory.
async fn two_processes() -> Result<(LockClient, LockClient), LockError> {
    if let Ok(url) = std::env::var("REDIS_URL") {
        return Ok((LockClient::connect(&url).await?, LockClient::connect(&url).await?));
    }
    let store = MemoryStore::new();
    let peer = || LockClient::builder().memory(store.clone());
    Ok((peer()?, peer()?))
}
