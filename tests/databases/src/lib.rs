//! Databases for tests: servers that the tests start, and what they say to their processes.
//!
//! - [`Postgres`], [`PgBouncer`], [`MariaDb`]: throw-away servers, each alone on unix sockets in a folder of its own,
//! - [`protocol`]: what a test and its `fence_worker` say to each other.
//!
//! A check that does not hold panics, as in [`lock_tests`].
#![allow(clippy::missing_panics_doc, reason = "each panic has its sentence, without a heading")]

mod mariadb;
mod pgbouncer;
mod postgres;
mod program;
pub mod protocol;

pub use mariadb::MariaDb;
pub use pgbouncer::PgBouncer;
pub use postgres::Postgres;
