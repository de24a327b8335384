//! Wrong use: the error says what is wrong, and nothing is written.

use lock_runtime::{LockClient, LockGuard};
use lock_sqlx::{Fence, FenceDatabase, FenceError};
use sqlx::mysql::{MySqlConnectOptions, MySqlDatabaseError, MySqlPoolOptions};
use sqlx::{
    AssertSqlSafe, ColumnIndex, Decode, Executor, MySql, MySqlPool, PgPool, Pool, SqlitePool, Type,
};

use crate::holds::early_and_late;
use crate::servers::{fresh_name, mariadb, postgres};

async fn hold() -> LockGuard {
    LockClient::in_memory().mutex("account:7").lock().await.unwrap()
}

async fn run<DB: FenceDatabase>(pool: &Pool<DB>, statements: &str)
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    let mut connection = pool.acquire().await.unwrap();
    let done = sqlx::raw_sql(AssertSqlSafe(statements)).execute(&mut *connection).await;
    done.unwrap_or_else(|error| panic!("`{statements}` failed: {error}"));
}

async fn count<DB: FenceDatabase>(pool: &Pool<DB>, table: &str) -> i64
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'r> i64: Decode<'r, DB>,
    i64: Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    let mut connection = pool.acquire().await.unwrap();
    let count = AssertSqlSafe(format!("SELECT COUNT(*) FROM {table}"));
    sqlx::Row::get(&sqlx::raw_sql(count).fetch_one(&mut *connection).await.unwrap(), 0)
}

/// What is the same in all databases.
async fn wrong_use<DB: FenceDatabase>(pool: Pool<DB>)
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'r> i64: Decode<'r, DB>,
    i64: Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    // No table.
    let mut tx = pool.begin().await.unwrap();
    let error = hold().await.fence(&mut tx).await.unwrap_err();
    assert!(matches!(error, FenceError::NoTable(_)), "{error:?}");
    assert!(error.to_string().contains("create it with `lock_sqlx::migrate`"), "{error}");
    drop(tx);
    // Twice, and by two programs at once.
    let (one, two) = tokio::join!(lock_sqlx::migrate(&pool), lock_sqlx::migrate(&pool));
    one.and(two).unwrap();

    // A hold that others may have, too.
    let mut tx = pool.begin().await.unwrap();
    let reads = LockClient::in_memory().rw_lock("account:7").read().await.unwrap();
    let error = reads.fence(&mut tx).await.unwrap_err();
    assert!(matches!(error, FenceError::NotExclusive(_)), "{error:?}");
    assert!(error.to_string().contains("\"account:7\" does not exclude others"), "{error}");
    tx.commit().await.unwrap();

    // A transaction that has ended. What comes after it would be committed at once.
    let mut tx = pool.begin().await.unwrap();
    sqlx::raw_sql("COMMIT").execute(&mut *tx).await.unwrap();
    let error = hold().await.fence(&mut tx).await.unwrap_err();
    assert!(matches!(error, FenceError::Ended { .. }), "{error:?}");
    assert!(error.to_string().contains("has already ended the transaction"), "{error}");
    drop(tx);
    assert_eq!(count(&pool, "lock_fences").await, 0);

    // A late hold.
    let (early, late) = early_and_late("account:7").await;
    let mut tx = pool.begin().await.unwrap();
    late.fence(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    let error = early.fence(&mut tx).await.unwrap_err();
    let FenceError::Stale { token, newest, .. } = error else { panic!("{error:?}") };
    assert_eq!((token, newest), (early.token(), late.token()));
    drop(tx);
    assert_eq!(count(&pool, "lock_fences").await, 1);
}

/// A column that is shorter than the name.
async fn short_column<DB: FenceDatabase>(pool: Pool<DB>, column: &str)
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'r> i64: Decode<'r, DB>,
    i64: Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    let table = "CREATE TABLE lock_fences";
    run(&pool, &format!("{table} (name {column} PRIMARY KEY, token BIGINT NOT NULL)")).await;
    let mut tx = pool.begin().await.unwrap();
    let error = hold().await.fence(&mut tx).await.unwrap_err();
    assert!(matches!(error, FenceError::NameTooLong { .. }), "{error:?}");
    assert!(error.to_string().contains("the name \"account:7\" of 9 bytes is too long"), "{error}");
    drop(tx);
    assert_eq!(count(&pool, "lock_fences").await, 0);
}

async fn on_postgres() -> PgPool {
    PgPool::connect(&postgres().await.create(&fresh_name()).await).await.unwrap()
}

async fn on_mariadb() -> MySqlPool {
    MySqlPool::connect(&mariadb().await.create(&fresh_name()).await).await.unwrap()
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test --with-databases"]
async fn postgres_is_told() {
    wrong_use(on_postgres().await).await;
    short_column(on_postgres().await, "VARCHAR(8)").await;
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test --with-databases"]
async fn mariadb_is_told() {
    wrong_use(on_mariadb().await).await;
    short_column(on_mariadb().await, "VARBINARY(8)").await;
}

#[tokio::test]
async fn sqlite_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let pool = SqlitePool::connect(&format!("sqlite://{}?mode=rwc", file.display())).await;
    wrong_use(pool.unwrap()).await;
}

/// Without the strict mode the server cuts what is too long.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test --with-databases"]
async fn mariadb_does_not_cut_a_name() {
    let url = mariadb().await.create(&fresh_name()).await;
    let pool = MySqlPoolOptions::new().after_connect(|connection, _| {
        let set = sqlx::raw_sql("SET SESSION sql_mode = ''");
        Box::pin(async move { set.execute(connection).await.map(drop) })
    });
    let options: MySqlConnectOptions = url.parse().unwrap();
    short_column(pool.connect_with(options).await.unwrap(), "VARBINARY(8)").await;
}

/// The database refuses every statement of a transaction in which one has failed.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test --with-databases"]
async fn postgres_refuses_an_aborted_transaction() {
    let pool = on_postgres().await;
    lock_sqlx::migrate(&pool).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    sqlx::raw_sql("SELECT 1 / 0").execute(&mut *tx).await.unwrap_err();
    let error = hold().await.fence(&mut tx).await.unwrap_err();
    let FenceError::Sql(sqlx::Error::Database(refusal)) = &error else { panic!("{error:?}") };
    assert_eq!(refusal.code().as_deref(), Some("25P02"));
    assert!(error.to_string().contains("current transaction is aborted"), "{error}");
    drop(tx);
    assert_eq!(count(&pool, "lock_fences").await, 0);
}

/// A deadlock ends the transaction, of which sqlx does not know. What came next would be committed at once.
#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test --with-databases"]
async fn mariadb_is_in_no_transaction_after_a_deadlock() {
    let pool = on_mariadb().await;
    lock_sqlx::migrate(&pool).await.unwrap();
    run(
        &pool,
        "CREATE TABLE rows2 (id INT PRIMARY KEY, n INT); INSERT INTO rows2 VALUES (1, 0), (2, 0)",
    )
    .await;
    let update = |id| AssertSqlSafe(format!("UPDATE rows2 SET n = n + 1 WHERE id = {id}"));
    let (mut one, mut two) = (pool.begin().await.unwrap(), pool.begin().await.unwrap());
    sqlx::raw_sql(update(1)).execute(&mut *one).await.unwrap();
    sqlx::raw_sql(update(2)).execute(&mut *two).await.unwrap();
    // Each waits for the other; the server ends one.
    let (first, second) = tokio::join!(
        sqlx::raw_sql(update(2)).execute(&mut *one),
        sqlx::raw_sql(update(1)).execute(&mut *two)
    );
    let (mut ended, error) = match (first, second) {
        (Err(error), Ok(_)) => (one, error),
        (Ok(_), Err(error)) => (two, error),
        both => panic!("no deadlock: {both:?}"),
    };
    let number = error.as_database_error().unwrap().downcast_ref::<MySqlDatabaseError>().number();
    assert_eq!(number, 1213);
    let error = hold().await.fence(&mut ended).await.unwrap_err();
    assert!(matches!(error, FenceError::Ended { .. }), "{error:?}");
    drop(ended);
    assert_eq!(count::<MySql>(&pool, "lock_fences").await, 0);
}
