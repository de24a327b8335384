//! SQLite.

use lock_runtime::LockKey;
use sqlx::error::DatabaseError;
use sqlx::{Sqlite, SqliteConnection};

use super::{FenceDatabase, Statements};
use crate::FenceError;

impl FenceDatabase for Sqlite {
    const MIGRATION: &'static str = include_str!("../../migrations/sqlite.sql");
}

impl Statements for Sqlite {
    async fn create(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(Self::MIGRATION).execute(connection).await.map(drop)
    }

    async fn raise(
        connection: &mut SqliteConnection,
        name: &LockKey,
        token: i64,
    ) -> Result<i64, FenceError> {
        // No transaction can begin inside of another one.
        match sqlx::raw_sql("BEGIN").execute(&mut *connection).await {
            // It stays open: sqlx ends the transaction that it knows, and a failing ROLLBACK would leave its count of transactions
            // wrong for the next user of this connection.
            Ok(_) => return Err(FenceError::Ended { name: name.clone() }),
            Err(error) if says(&error, "within a transaction") => {}
            Err(error) => return Err(error.into()),
        }
        let raise = "INSERT INTO lock_fences (name, token) VALUES ($1, $2) \
                     ON CONFLICT (name) DO UPDATE SET token = MAX(lock_fences.token, excluded.token) RETURNING token";
        let raise = sqlx::query_scalar(raise).bind(name.as_str().to_owned()).bind(token);
        raise.fetch_one(connection).await.map_err(|error| {
            let has_no_table = says(&error, "no such table");
            if has_no_table { FenceError::NoTable(error) } else { FenceError::Sql(error) }
        })
    }

    async fn prune(connection: &mut SqliteConnection, age: i64) -> Result<u64, sqlx::Error> {
        let delete =
            "DELETE FROM lock_fences WHERE token < (SELECT MAX(token) FROM lock_fences) - $1";
        Ok(sqlx::query(delete).bind(age).execute(connection).await?.rows_affected())
    }
}

/// SQLite has one code for many errors.
fn says(error: &sqlx::Error, words: &str) -> bool {
    error.as_database_error().map(DatabaseError::message).is_some_and(|it| it.contains(words))
}
