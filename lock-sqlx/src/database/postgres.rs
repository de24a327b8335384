//! PostgreSQL.

use lock_runtime::LockKey;
use sqlx::error::DatabaseError;
use sqlx::{AssertSqlSafe, PgConnection, Postgres, Row};

use super::{FenceDatabase, LOOK, Statements, hex};
use crate::FenceError;

impl FenceDatabase for Postgres {
    const MIGRATION: &'static str = include_str!("../../migrations/postgres.sql");
}

impl Statements for Postgres {
    async fn create(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        let created = sqlx::raw_sql(Self::MIGRATION).execute(&mut *connection).await;
        // IF NOT EXISTS looks before it creates. Of two that look at once, one fails after the other has committed.
        let is_there = created.is_err() && sqlx::raw_sql(LOOK).execute(connection).await.is_ok();
        if is_there { Ok(()) } else { created.map(drop) }
    }

    /// In one round trip, as without the two statements in front; prepared statements would make it three.
    async fn raise(
        connection: &mut PgConnection,
        name: &LockKey,
        token: i64,
    ) -> Result<i64, FenceError> {
        // A savepoint is an error outside of a transaction. There, statements that are sent together are one, which would be
        // committed at the end.
        let statements = format!(
            "SAVEPOINT lock_fence; RELEASE SAVEPOINT lock_fence; \
             INSERT INTO lock_fences (name, token) VALUES (convert_from(decode('{}', 'hex'), 'UTF8'), {token}) \
             ON CONFLICT (name) DO UPDATE SET token = GREATEST(lock_fences.token, excluded.token) RETURNING lock_fences.token",
            hex(name)
        );
        let rows = sqlx::raw_sql(AssertSqlSafe(statements)).fetch_all(connection).await;
        let rows = rows.map_err(|error| explain(error, name))?;
        Ok(rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get(0)?)
    }

    /// Without what open transactions have fenced: to wait for one would hold up the fences of all names that are deleted with it.
    async fn prune(connection: &mut PgConnection, age: i64) -> Result<u64, sqlx::Error> {
        // No prepared statement, which another connection of a pooling proxy would not know.
        let delete = format!(
            "DELETE FROM lock_fences WHERE name IN (SELECT name FROM lock_fences \
             WHERE token < LEAST((SELECT MAX(token) FROM lock_fences), \
             (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::BIGINT) - {age} FOR UPDATE SKIP LOCKED)"
        );
        Ok(sqlx::raw_sql(AssertSqlSafe(delete)).execute(connection).await?.rows_affected())
    }
}

fn code(error: &sqlx::Error) -> Option<String> {
    Some(error.as_database_error().and_then(DatabaseError::code)?.into_owned())
}

fn explain(error: sqlx::Error, name: &LockKey) -> FenceError {
    match code(&error).as_deref() {
        // no_active_sql_transaction
        Some("25P01") => FenceError::Ended { name: name.clone() },
        // undefined_table
        Some("42P01") => FenceError::NoTable(error),
        // string_data_right_truncation
        Some("22001") => FenceError::NameTooLong { name: name.clone() },
        _ => FenceError::Sql(error),
    }
}
