//! What a fence costs: the same transaction with it and without it.

use std::time::Duration;

use lock_runtime::{LockClient, LockGuard};
use lock_sqlx::{Fence, FenceDatabase};
use sqlx::{Executor, MySqlPool, PgPool, Pool, SqlitePool};
use tokio::time::Instant;

use crate::servers::{fresh_name, mariadb, pgbouncer, postgres};

/// How often each is measured.
const TIMES: usize = 500;

async fn transaction<DB: FenceDatabase>(pool: &Pool<DB>, hold: Option<&LockGuard>) -> Duration
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    let start = Instant::now();
    let mut tx = pool.begin().await.unwrap();
    if let Some(hold) = hold {
        hold.fence(&mut tx).await.unwrap();
    }
    sqlx::raw_sql("SELECT balance FROM accounts").execute(&mut *tx).await.unwrap();
    sqlx::raw_sql("UPDATE accounts SET balance = 7").execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    start.elapsed()
}

async fn measure<DB: FenceDatabase>(name: &str, pool: Pool<DB>)
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    lock_sqlx::migrate(&pool).await.unwrap();
    let table = "CREATE TABLE accounts (balance BIGINT); INSERT INTO accounts VALUES (0)";
    let mut connection = pool.acquire().await.unwrap();
    sqlx::raw_sql(table).execute(&mut *connection).await.unwrap();
    drop(connection);
    let hold = LockClient::in_memory().mutex("account:7").lock().await.unwrap();
    let (mut with, mut without) = (Vec::new(), Vec::new());
    // In turns, so that both have the same machine.
    for _ in 0..TIMES {
        with.push(transaction(&pool, Some(&hold)).await);
        without.push(transaction(&pool, None).await);
    }
    let p50 = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times[TIMES / 2]
    };
    let (with, without) = (p50(with), p50(without));
    let ratio = with.as_secs_f64() / without.as_secs_f64();
    println!("{name}: p50 {without:?} without the fence, {with:?} with it: {ratio:.2} times");
}

#[tokio::test]
#[ignore = "a measurement"]
async fn of_a_fence() {
    let url = postgres().await.create(&fresh_name()).await;
    measure("PostgreSQL", PgPool::connect(&url).await.unwrap()).await;
    let name = fresh_name();
    postgres().await.create(&name).await;
    let url = pgbouncer().await.url(&name);
    measure("PostgreSQL behind pgbouncer", PgPool::connect(&url).await.unwrap()).await;
    let url = mariadb().await.create(&fresh_name()).await;
    measure("MariaDB", MySqlPool::connect(&url).await.unwrap()).await;
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}?mode=rwc", folder.path().join("file").display());
    measure("SQLite", SqlitePool::connect(&url).await.unwrap()).await;
}
