//! PostgreSQL.

use lock_runtime::LockKey;
use sqlx::error::DatabaseError;
use sqlx::{AssertSqlSafe, PgConnection, Postgres, Row};

use super::{FenceDatabase, Statements, hex};
use crate::FenceError;

impl FenceDatabase for Postgres {
    const MIGRATION: &'static str = include_str!("../../migrations/postgres.sql");
}

impl Statements for Postgres {
    async fn create(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        let Err(error) = sqlx::raw_sql(Self::MIGRATION).execute(&mut *connection).await else {
            return Ok(());
        };
        // IF NOT EXISTS looks before it creates. Of two that look at once, one fails after the other has committed, so that a second
        // look finds the table.
        match code(&error).as_deref() {
            Some("23505" | "42710" | "42P07") => {
                sqlx::raw_sql(Self::MIGRATION).execute(connection).await.map(drop)
            }
            _ => Err(error),
        }
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

    async fn prune(connection: &mut PgConnection, age: i64) -> Result<u64, sqlx::Error> {
        let delete =
            "DELETE FROM lock_fences WHERE token < (SELECT MAX(token) FROM lock_fences) - $1";
        Ok(sqlx::query(delete).bind(age).execute(connection).await?.rows_affected())
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
