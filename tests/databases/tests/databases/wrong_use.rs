//! Wrong use: the error says what is wrong, and nothing is written.

use std::time::Duration;

use lock_runtime::{LockClient, LockGuard};
use lock_sqlx::{Fence, FenceDatabase, FenceError};
use sqlx::mysql::{MySqlConnectOptions, MySqlDatabaseError, MySqlPoolOptions};
use sqlx::postgres::PgPoolOptions;
use sqlx::{
    AssertSqlSafe, ColumnIndex, Decode, Executor, MySql, MySqlPool, PgPool, Pool, SqlitePool, Type,
};
use tokio::time::timeout;

use crate::holds::early_and_late;
use crate::servers::{fresh_name, mariadb, pgbouncer, postgres};

/// More than anything here takes on a busy machine.
const BOUND: Duration = Duration::from_secs(30);

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

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

/// Names differ if one byte differs, and no byte has a meaning.
async fn names<DB: FenceDatabase>(pool: &Pool<DB>)
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'r> i64: Decode<'r, DB>,
    i64: Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    lock_sqlx::migrate(pool).await.unwrap();
    let longest = "ü".repeat(256);
    let names = ["job", "Job", "job ", "jöb", "it's", "\\", "$1", "?", longest.as_str()];
    for (before, name) in names.iter().enumerate() {
        let (early, late) = early_and_late(name).await;
        for hold in [early, late.watch()] {
            let mut tx = pool.begin().await.unwrap();
            hold.fence(&mut tx).await.unwrap_or_else(|error| panic!("{name:?}: {error}"));
            tx.commit().await.unwrap();
            assert_eq!(count(pool, "lock_fences").await, before as i64 + 1, "{name:?}");
        }
    }
}

/// A fence waits for another transaction, also for one of its own hold. It is dropped meanwhile, and the connection can be used again.
async fn a_dropped_fence<DB: FenceDatabase>(pool: &Pool<DB>)
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'r> i64: Decode<'r, DB>,
    i64: Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    lock_sqlx::migrate(pool).await.unwrap();
    let (early, late) = early_and_late("dropped").await;
    for hold in [&early, &late.watch()] {
        let mut open = pool.begin().await.unwrap();
        early.fence(&mut open).await.unwrap();
        let mut tx = pool.begin().await.unwrap();
        let wait = timeout(Duration::from_millis(200), hold.fence(&mut tx)).await;
        assert!(wait.is_err(), "the fence did not wait: {wait:?}");
        open.commit().await.unwrap();
        drop(tx);
        let mut tx = timeout(BOUND, pool.begin()).await.unwrap().unwrap();
        timeout(BOUND, hold.fence(&mut tx)).await.unwrap().unwrap();
        tx.commit().await.unwrap();
    }
}

/// The time that the database has, too.
#[allow(clippy::disallowed_types, reason = "a token is a time; nothing is decided by this one")]
fn since_1970() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap()
}

/// Old names go, but not one that an open transaction has fenced.
async fn prunes<DB: FenceDatabase>(pool: &Pool<DB>)
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'r> i64: Decode<'r, DB>,
    i64: Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    lock_sqlx::migrate(pool).await.unwrap();
    run(pool, "DELETE FROM lock_fences").await;
    assert_eq!(lock_sqlx::prune(pool, DAY).await.unwrap(), 0);
    let now = since_1970();
    let ages =
        [("ahead", now + 40 * DAY), ("now", now), ("old", now - 2 * DAY), ("older", now - 3 * DAY)];
    for (name, at) in ages {
        let token = at.as_micros();
        run(pool, &format!("INSERT INTO lock_fences (name, token) VALUES ('{name}', {token})"))
            .await;
    }
    assert_eq!(lock_sqlx::prune(pool, Duration::MAX).await.unwrap(), 0);
    assert_eq!(lock_sqlx::prune(pool, DAY).await.unwrap(), 2);
    assert_eq!(lock_sqlx::prune(pool, DAY).await.unwrap(), 0);
    assert_eq!(count(pool, "lock_fences").await, 2);
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
    let pool = on_postgres().await;
    names(&pool).await;
    a_dropped_fence(&pool).await;
    prunes(&pool).await;
}

/// Its connections are those of several clients in turn.
#[tokio::test]
#[ignore = "needs PostgreSQL and pgbouncer: cargo xtask test --with-databases"]
async fn pgbouncer_is_no_different() {
    let name = fresh_name();
    postgres().await.create(&name).await;
    let url = pgbouncer().await.url(&name);
    for _ in 0..3 {
        let pool = PgPool::connect(&url).await.unwrap();
        a_dropped_fence(&pool).await;
        prunes(&pool).await;
    }
}

/// What waits for an open transaction would hold up the fences of other names.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test --with-databases"]
async fn postgres_prunes_without_waiting() {
    let pool = on_postgres().await;
    lock_sqlx::migrate(&pool).await.unwrap();
    run(&pool, "INSERT INTO lock_fences VALUES ('account:7', 1), ('old', 2), ('new', 9)").await;
    let mut open = pool.begin().await.unwrap();
    hold().await.fence(&mut open).await.unwrap();
    let pruned = timeout(BOUND, lock_sqlx::prune(&pool, Duration::ZERO)).await;
    assert_eq!(pruned.expect("it waits").unwrap(), 1);
    open.commit().await.unwrap();
    assert_eq!(count(&pool, "lock_fences").await, 2);
}

/// A user without the right to create tables can migrate once the table is there.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test --with-databases"]
async fn postgres_migrates_without_the_right_to_create() {
    let pool = on_postgres().await;
    let role = fresh_name();
    run(&pool, &format!("CREATE ROLE {role}")).await;
    let poor = PgPoolOptions::new().after_connect(move |connection, _| {
        let set = sqlx::raw_sql(AssertSqlSafe(format!("SET ROLE {role}")));
        Box::pin(async move { set.execute(connection).await.map(drop) })
    });
    let options = pool.connect_options();
    let poor = poor.connect_with((*options).clone()).await.unwrap();
    let refused = lock_sqlx::migrate(&poor).await.unwrap_err();
    assert!(refused.to_string().contains("permission denied"), "{refused}");
    lock_sqlx::migrate(&pool).await.unwrap();
    run(&pool, "GRANT SELECT, INSERT, UPDATE ON lock_fences TO PUBLIC").await;
    lock_sqlx::migrate(&poor).await.unwrap();
    let mut tx = poor.begin().await.unwrap();
    hold().await.fence(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
}

/// Above READ COMMITTED the database refuses a fence after a snapshot that is older than a later hold's commit.
#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test --with-databases"]
async fn postgres_refuses_a_fence_after_an_old_snapshot() {
    let pool = on_postgres().await;
    lock_sqlx::migrate(&pool).await.unwrap();
    let (early, late) = early_and_late("account:7").await;
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ";
    let mut tx = pool.begin_with(begin).await.unwrap();
    sqlx::raw_sql("SELECT token FROM lock_fences").fetch_all(&mut *tx).await.unwrap();
    let mut other = pool.begin().await.unwrap();
    early.fence(&mut other).await.unwrap();
    other.commit().await.unwrap();
    let error = late.fence(&mut tx).await.unwrap_err();
    let FenceError::Sql(sqlx::Error::Database(refusal)) = &error else { panic!("{error:?}") };
    assert_eq!(refusal.code().as_deref(), Some("40001"));
}

#[tokio::test]
#[ignore = "needs MariaDB: cargo xtask test --with-databases"]
async fn mariadb_is_told() {
    wrong_use(on_mariadb().await).await;
    short_column(on_mariadb().await, "VARBINARY(8)").await;
    let pool = on_mariadb().await;
    names(&pool).await;
    a_dropped_fence(&pool).await;
    prunes(&pool).await;
}

#[tokio::test]
async fn sqlite_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let pool = SqlitePool::connect(&format!("sqlite://{}?mode=rwc", file.display())).await.unwrap();
    wrong_use(pool.clone()).await;
    run(&pool, "DELETE FROM lock_fences").await;
    names(&pool).await;
    a_dropped_fence(&pool).await;
    prunes(&pool).await;
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
