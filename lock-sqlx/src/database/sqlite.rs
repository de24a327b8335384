//! SQLite.

use lock_runtime::LockKey;
use sqlx::error::DatabaseError;
use sqlx::{Sqlite, SqliteConnection};

use super::{FenceDatabase, Statements};
use crate::FenceError;

/// What follows the BEGIN that found no transaction. sqlx still counts some, ends the innermost with ROLLBACK TO its savepoint and the
/// outermost with ROLLBACK, and keeps its count if one of these fails: then the next user of the connection commits nothing. So both
/// find what they end. The names are those of sqlx 0.9, and a test compares them with it. No program nests eight transactions.
const AS_SQLX_KNOWS_IT: &str = "SAVEPOINT _sqlx_savepoint_1; SAVEPOINT _sqlx_savepoint_2; SAVEPOINT _sqlx_savepoint_3; \
    SAVEPOINT _sqlx_savepoint_4; SAVEPOINT _sqlx_savepoint_5; SAVEPOINT _sqlx_savepoint_6; SAVEPOINT _sqlx_savepoint_7";

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
            Ok(_) => {
                sqlx::raw_sql(AS_SQLX_KNOWS_IT).execute(connection).await?;
                return Err(FenceError::Ended { name: name.clone() });
            }
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
        let delete = "DELETE FROM lock_fences WHERE token < MIN((SELECT MAX(token) FROM lock_fences), \
            CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)) - $1";
        Ok(sqlx::query(delete).bind(age).execute(connection).await?.rows_affected())
    }
}

/// SQLite has one code for many errors.
fn says(error: &sqlx::Error, words: &str) -> bool {
    error.as_database_error().map(DatabaseError::message).is_some_and(|it| it.contains(words))
}
