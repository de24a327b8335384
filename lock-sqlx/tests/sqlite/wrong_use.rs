//! What is refused with a sentence, and writes nothing.

use std::pin::Pin;

use lock_runtime::LockClient;
use lock_sqlx::{Fence, FenceError};
use sqlx::Connection;

use super::*;

#[tokio::test]
async fn a_read_hold_is_refused_without_the_database() {
    // Which has no table.
    let (database, locks) = (Database::empty().await, LockClient::in_memory());
    let reader = locks.rw_lock("prices").read().await.unwrap();
    let mut tx = database.begin().await;
    let refused = reader.fence(&mut tx).await.unwrap_err();
    assert!(matches!(&refused, FenceError::NotExclusive(it) if it.name().as_str() == "prices"));
    assert!(refused.to_string().contains("\"prices\" does not exclude others"), "{refused}");
}

#[tokio::test]
async fn a_missing_table_is_named() {
    let (database, locks) = (Database::empty().await, LockClient::in_memory());
    let hold = locks.mutex("job").lock().await.unwrap();
    let refused = hold.fence(&mut database.begin().await).await.unwrap_err();
    assert!(matches!(refused, FenceError::NoTable(_)), "{refused:?}");
    assert!(refused.to_string().contains("`lock_sqlx::migrate`"), "{refused}");
    // The connections are as before.
    lock_sqlx::migrate(&database.pool).await.unwrap();
    hold.fence(&mut database.begin().await).await.unwrap();
}

/// SQLite rolls everything back after some errors, and a program may write COMMIT itself; sqlx notices neither.
#[tokio::test]
async fn a_transaction_that_has_ended_is_refused() {
    let locks = LockClient::in_memory();
    let hold = locks.mutex("job").lock().await.unwrap();
    for end in ["INSERT OR ROLLBACK INTO notes VALUES ('there')", "COMMIT", "ROLLBACK"] {
        let database = Database::start().await;
        let pool = pool(&database.folder, 1).await;
        sqlx::raw_sql("INSERT INTO notes VALUES ('there')").execute(&pool).await.unwrap();

        let mut tx = pool.begin().await.unwrap();
        let ended = sqlx::raw_sql(end).execute(&mut *tx).await;
        assert_eq!(ended.is_err(), end.starts_with("INSERT"), "{ended:?}");
        let refused = hold.fence(&mut tx).await.unwrap_err();
        assert!(matches!(&refused, FenceError::Ended { name } if name.as_str() == "job"), "{end}");
        assert!(refused.to_string().contains("has already ended the transaction"), "{refused}");
        drop(tx);
        assert!(database.fences().await.is_empty(), "{end}");

        // sqlx and the connection agree again: this is refused if sqlx believes that a transaction is open.
        let mut connection = pool.acquire().await.unwrap();
        let mut tx = connection.begin_with("BEGIN IMMEDIATE").await.unwrap();
        hold.fence(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(database.fences().await.len(), 1, "{end}");
    }
}

/// Rolls everything back from inside of so many nested transactions, and fences the innermost.
fn end_and_fence<'t>(
    tx: &'t mut Transaction<'_, Sqlite>,
    nested: u32,
    hold: &'t LockGuard,
) -> Pin<Box<dyn Future<Output = Result<(), FenceError>> + 't>> {
    Box::pin(async move {
        if nested > 0 {
            let mut inner = tx.begin().await?;
            return end_and_fence(&mut inner, nested - 1, hold).await;
        }
        sqlx::raw_sql("ROLLBACK").execute(&mut **tx).await?;
        hold.fence(tx).await
    })
}

/// The same in nested transactions: the next user of the connection can commit.
#[tokio::test]
async fn a_nested_transaction_that_has_ended_is_refused() {
    let (database, locks) = (Database::start().await, LockClient::in_memory());
    let hold = locks.mutex("job").lock().await.unwrap();
    let pool = pool(&database.folder, 1).await;
    for nested in 1..=3 {
        let mut tx = pool.begin().await.unwrap();
        let refused = end_and_fence(&mut tx, nested, &hold).await;
        assert!(matches!(refused, Err(FenceError::Ended { .. })), "{nested}: {refused:?}");
        drop(tx);

        let mut tx = pool.begin().await.unwrap();
        hold.fence(&mut tx).await.unwrap();
        let note = format!("after {nested}");
        write(&mut tx, &note).await;
        tx.commit().await.unwrap();
        // As another connection sees it.
        assert_eq!(database.notes().await.last(), Some(&note));
    }
}

/// The caller gives up while the fence waits; the connection can be used again.
#[tokio::test]
async fn a_dropped_fence_leaves_a_transaction_that_can_be_dropped() {
    let (database, locks) = (Database::start().await, LockClient::in_memory());
    let (earlier, later) = late_and_next(&locks, "job").await;
    let other = pool(&database.folder, 1).await;
    let mut open = database.begin().await;
    earlier.fence(&mut open).await.unwrap();

    let mut tx = other.begin().await.unwrap();
    let wait = tokio::time::timeout(Duration::from_millis(100), later.fence(&mut tx)).await;
    assert!(wait.is_err(), "the fence did not wait");
    open.commit().await.unwrap();
    drop(tx);
    let mut tx = other.begin().await.unwrap();
    later.fence(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(database.fences().await, [("job".to_owned(), stored(later.token()))]);
}
