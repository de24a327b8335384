//! The table: how it is made, and how it is pruned.

use lock_runtime::LockClient;
use lock_sqlx::Fence;

use super::*;

#[tokio::test]
async fn programs_migrate_at_once() {
    let database = Database::empty().await;
    let mut pools = Vec::new();
    for _ in 0..8 {
        pools.push(pool(&database.folder, 1).await);
    }
    let migrations = pools.iter().map(lock_sqlx::migrate);
    futures_util::future::try_join_all(migrations).await.unwrap();
    assert!(database.fences().await.is_empty());
}

/// The newest token is the present.
#[tokio::test]
async fn old_names_are_pruned() {
    const MINUTE: Duration = Duration::from_secs(60);
    let (database, locks) = (Database::start().await, LockClient::in_memory());
    assert_eq!(lock_sqlx::prune(&database.pool, MINUTE).await.unwrap(), 0);
    let hold = locks.mutex("now").lock().await.unwrap();
    let mut tx = database.begin().await;
    hold.fence(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    let now = stored(hold.token());
    let minute = i64::try_from(MINUTE.as_micros()).unwrap();
    for (name, token) in [("older", now - minute - 1), ("as old", now - minute)] {
        let insert = sqlx::query("INSERT INTO lock_fences VALUES ($1, $2)").bind(name).bind(token);
        insert.execute(&database.pool).await.unwrap();
    }
    assert_eq!(lock_sqlx::prune(&database.pool, Duration::MAX).await.unwrap(), 0);
    assert_eq!(lock_sqlx::prune(&database.pool, MINUTE).await.unwrap(), 1);
    let kept: Vec<_> = database.fences().await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(kept, ["as old", "now"]);
    assert_eq!(lock_sqlx::prune(&database.pool, Duration::ZERO).await.unwrap(), 1);
}

/// The time that the database has, too.
#[allow(clippy::disallowed_types, reason = "a token is a time; nothing is decided by this one")]
fn since_1970() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap()
}

/// The clock of a Redis server that was once ahead makes no other name old.
#[tokio::test]
async fn a_token_of_the_future_is_no_present() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let database = Database::start().await;
    let now = since_1970();
    for (name, at) in [("ahead", now + 40 * DAY), ("just now", now), ("old", now - 31 * DAY)] {
        let insert = sqlx::query("INSERT INTO lock_fences VALUES ($1, $2)").bind(name);
        let token = i64::try_from(at.as_micros()).unwrap();
        insert.bind(token).execute(&database.pool).await.unwrap();
    }
    assert_eq!(lock_sqlx::prune(&database.pool, 30 * DAY).await.unwrap(), 1);
    let kept: Vec<_> = database.fences().await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(kept, ["ahead", "just now"]);
}
