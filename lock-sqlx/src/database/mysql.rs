//! MySQL and MariaDB.

use lock_runtime::LockKey;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{AssertSqlSafe, MySql, MySqlConnection, Row};

use super::{FenceDatabase, LOOK, Statements, hex};
use crate::FenceError;

impl FenceDatabase for MySql {
    const MIGRATION: &'static str = include_str!("../../migrations/mysql.sql");
}

impl Statements for MySql {
    async fn create(connection: &mut MySqlConnection) -> Result<(), sqlx::Error> {
        let created = sqlx::raw_sql(Self::MIGRATION).execute(&mut *connection).await;
        let is_there = created.is_err() && sqlx::raw_sql(LOOK).execute(connection).await.is_ok();
        if is_there { Ok(()) } else { created.map(drop) }
    }

    /// In one round trip; prepared statements would make it three.
    async fn raise(
        connection: &mut MySqlConnection,
        name: &LockKey,
        token: i64,
    ) -> Result<i64, FenceError> {
        // Outside of a transaction a savepoint ends at once, and its release is an error, after which the server runs no more of
        // these. The last statement reads what is stored, and not the snapshot of the transaction.
        let hex = hex(name);
        let statements = format!(
            "SAVEPOINT lock_fence; RELEASE SAVEPOINT lock_fence; \
             INSERT INTO lock_fences (name, token) VALUES (x'{hex}', {token}) \
             ON DUPLICATE KEY UPDATE token = GREATEST(token, {token}); \
             SELECT token FROM lock_fences WHERE name = x'{hex}' FOR UPDATE"
        );
        let rows = sqlx::raw_sql(AssertSqlSafe(statements)).fetch_all(connection).await;
        let rows = rows.map_err(|error| explain(error, name))?;
        // Without the strict mode the server cuts a name that is too long, and finds no row of the whole name.
        let row = rows.first().ok_or_else(|| FenceError::NameTooLong { name: name.clone() })?;
        Ok(row.try_get(0)?)
    }

    /// By primary key: a condition on the token would lock each row that is looked at, and wait for all fenced transactions.
    async fn prune(connection: &mut MySqlConnection, age: i64) -> Result<u64, sqlx::Error> {
        let newest = "SELECT LEAST(MAX(token), CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)) FROM lock_fences";
        let newest = sqlx::query_scalar(newest);
        let Some(newest): Option<i64> = newest.fetch_one(&mut *connection).await? else {
            return Ok(0);
        };
        let oldest = newest.saturating_sub(age);
        let names = sqlx::query_scalar("SELECT name FROM lock_fences WHERE token < ?").bind(oldest);
        let names: Vec<Vec<u8>> = names.fetch_all(&mut *connection).await?;
        let mut pruned = 0;
        for name in names {
            let delete = sqlx::query("DELETE FROM lock_fences WHERE name = ? AND token < ?");
            let deleted = delete.bind(name).bind(oldest).execute(&mut *connection).await?;
            pruned += deleted.rows_affected();
        }
        Ok(pruned)
    }
}

fn explain(error: sqlx::Error, name: &LockKey) -> FenceError {
    let refusal = error.as_database_error();
    let refusal = refusal.and_then(|it| it.try_downcast_ref::<MySqlDatabaseError>());
    match refusal.map(MySqlDatabaseError::number) {
        // ER_SP_DOES_NOT_EXIST
        Some(1305) => FenceError::Ended { name: name.clone() },
        // ER_NO_SUCH_TABLE
        Some(1146) => FenceError::NoTable(error),
        // ER_DATA_TOO_LONG
        Some(1406) => FenceError::NameTooLong { name: name.clone() },
        _ => FenceError::Sql(error),
    }
}
