//! Which of two holds commits, in which order (S-37).

use std::time::Duration;

use lock_runtime::LockClient;
use lock_sqlx::{Fence, FenceError};
use tokio::time::timeout;

use super::*;

/// How long a fence that has to wait is watched.
const A_WHILE: Duration = Duration::from_millis(200);

#[tokio::test]
async fn a_late_hold_is_refused() {
    let (database, locks) = (Database::start().await, LockClient::in_memory());
    let (late, next) = late_and_next(&locks, "account:7").await;
    let mut tx = database.begin().await;
    next.fence(&mut tx).await.unwrap();
    tx.commit().await.unwrap();

    let mut tx = database.begin().await;
    let refused = late.fence(&mut tx).await.unwrap_err();
    drop(tx);
    assert_eq!(
        refused.to_string(),
        format!(
            "the hold of \"account:7\" is late: its token is {}, and a hold with {} has fenced since; roll back, and acquire the \
             lock again if the work is still to be done",
            late.token(),
            next.token()
        )
    );
    let FenceError::Stale { name, token, newest } = refused else { panic!("{refused}") };
    assert_eq!((name.as_str(), token, newest), ("account:7", late.token(), next.token()));
    assert_eq!(database.fences().await, [("account:7".to_owned(), stored(next.token()))]);
}

#[tokio::test]
async fn a_hold_fences_as_often_as_it_likes() {
    let (database, locks) = (Database::start().await, LockClient::in_memory());
    let hold = locks.mutex("job").lock().await.unwrap();
    for note in ["one", "two"] {
        let mut tx = database.begin().await;
        hold.fence(&mut tx).await.unwrap();
        hold.watch().fence(&mut tx).await.unwrap();
        write(&mut tx, note).await;
        tx.commit().await.unwrap();
    }
    assert_eq!(database.notes().await, ["one", "two"]);
}

/// The earlier hold has fenced and is paused before its commit.
#[tokio::test]
async fn a_later_hold_waits_for_the_commit_of_an_earlier_one() {
    let (database, locks) = (Database::start().await, LockClient::in_memory());
    let (earlier, later) = late_and_next(&locks, "job").await;
    let mut paused = database.begin().await;
    earlier.fence(&mut paused).await.unwrap();
    write(&mut paused, "earlier").await;

    let pool = database.pool.clone();
    let mut next = tokio::spawn(async move {
        let mut tx = pool.begin().await.unwrap();
        later.fence(&mut tx).await.unwrap();
        let seen: Vec<String> =
            sqlx::query_scalar("SELECT note FROM notes").fetch_all(&mut *tx).await.unwrap();
        write(&mut tx, "later").await;
        tx.commit().await.unwrap();
        seen
    });
    assert!(timeout(A_WHILE, &mut next).await.is_err(), "the later hold did not wait");
    paused.commit().await.unwrap();
    assert_eq!(timeout(BOUND, next).await.unwrap().unwrap(), ["earlier"]);
    assert_eq!(database.notes().await, ["earlier", "later"]);
}

/// The later hold is first; what becomes of the earlier one depends on whether that transaction commits.
#[tokio::test]
async fn an_earlier_hold_is_refused_if_the_later_one_commits() {
    for commits in [true, false] {
        let (database, locks) = (Database::start().await, LockClient::in_memory());
        let (earlier, later) = late_and_next(&locks, "job").await;
        let mut first = database.begin().await;
        later.fence(&mut first).await.unwrap();

        let pool = database.pool.clone();
        let mut second = tokio::spawn(async move {
            let mut tx = pool.begin().await.unwrap();
            earlier.fence(&mut tx).await?;
            write(&mut tx, "earlier").await;
            Ok::<_, FenceError>(tx.commit().await?)
        });
        assert!(timeout(A_WHILE, &mut second).await.is_err(), "the earlier hold did not wait");
        if commits {
            first.commit().await.unwrap();
        } else {
            first.rollback().await.unwrap();
        }
        let second = timeout(BOUND, second).await.unwrap().unwrap();
        match commits {
            true => assert!(matches!(second, Err(FenceError::Stale { .. })), "{second:?}"),
            false => second.unwrap(),
        }
        assert_eq!(database.notes().await.is_empty(), commits);
    }
}

/// A snapshot from before the fence does not contain what an earlier hold wrote meanwhile.
#[tokio::test]
async fn a_transaction_that_has_read_old_data_is_refused() {
    let (database, locks) = (Database::start().await, LockClient::in_memory());
    let (earlier, later) = late_and_next(&locks, "job").await;
    let mut tx = database.begin().await;
    sqlx::query("SELECT * FROM notes").fetch_all(&mut *tx).await.unwrap();

    let mut other = database.begin().await;
    earlier.fence(&mut other).await.unwrap();
    write(&mut other, "earlier").await;
    other.commit().await.unwrap();

    let refused = later.fence(&mut tx).await.unwrap_err();
    let FenceError::Sql(sqlx::Error::Database(refused)) = refused else { panic!("{refused}") };
    // SQLITE_BUSY_SNAPSHOT
    assert_eq!(refused.code().as_deref(), Some("517"), "{refused}");
}

#[tokio::test]
async fn a_nested_transaction_takes_its_fence_with_it() {
    let (database, locks) = (Database::start().await, LockClient::in_memory());
    let hold = locks.mutex("job").lock().await.unwrap();
    let mut tx = database.begin().await;
    {
        use sqlx::Acquire;
        let mut nested = tx.begin().await.unwrap();
        hold.fence(&mut nested).await.unwrap();
        nested.rollback().await.unwrap();
    }
    tx.commit().await.unwrap();
    assert!(database.fences().await.is_empty());
}

#[tokio::test]
async fn a_hold_of_several_names_fences_each() {
    let (database, locks) = (Database::start().await, LockClient::in_memory());
    let both = locks.multi_lock(["account:9", "account:7"]);
    let guard = both.lock().await.unwrap();
    let late = guard.watch();
    let mut tx = database.begin().await;
    guard.fence(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    let token = stored(guard.token());
    assert_eq!(
        database.fences().await,
        [("account:7".to_owned(), token), ("account:9".to_owned(), token)]
    );
    guard.release().await.unwrap();

    // One name is enough to be late.
    let next = locks.mutex("account:9").lock().await.unwrap();
    let mut tx = database.begin().await;
    next.fence(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = database.begin().await;
    let refused = late.fence(&mut tx).await.unwrap_err();
    assert!(matches!(&refused, FenceError::Stale { name, .. } if name.as_str() == "account:9"));
}
