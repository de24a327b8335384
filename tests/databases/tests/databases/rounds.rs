//! A thousand rounds for each database, over its isolation levels or journals, with workers that are stopped and killed at every
//! step.
//!
//! Without `fence`, the same rounds lose updates.
// S-37.

use std::time::Duration;

use futures_util::future::join_all;
use lock_database_tests::protocol::{Job, Shape};

use crate::crew::{Crew, Tally, plans};
use crate::servers::{fresh_name, mariadb, pgbouncer, postgres, redis};

/// Where the rounds run.
#[derive(Debug, Clone, Copy)]
enum Target {
    /// At this isolation level.
    Postgres(&'static str),
    /// The same, and each transaction over another connection.
    PgBouncer(&'static str),
    /// At this isolation level.
    MariaDb(&'static str),
    /// With this journal.
    Sqlite(&'static str),
}

/// How many rounds there are of each target, in four crews.
const ROUNDS: usize = 340;

/// Long enough for a busy machine to renew it in time, as a rule.
const LEASE: Duration = Duration::from_millis(150);

impl Target {
    /// A job with a database of its own. The folder is for SQLite.
    async fn job(self, shape: Shape, is_fenced: bool, folder: &str) -> Job {
        let name = fresh_name();
        let (mut setup, mut begin) = (String::new(), "BEGIN".to_owned());
        let database = match self {
            Self::Postgres(level) | Self::PgBouncer(level) => {
                let direct = postgres().await.create(&name).await;
                postgres().await.isolate(&name, level).await;
                let is_pooled = matches!(self, Self::PgBouncer(_));
                if is_pooled { pgbouncer().await.url(&name) } else { direct }
            }
            Self::MariaDb(level) => {
                setup = format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}");
                "START TRANSACTION".clone_into(&mut begin);
                mariadb().await.create(&name).await
            }
            Self::Sqlite(journal) => {
                setup = format!("PRAGMA journal_mode = {journal}; PRAGMA synchronous = OFF");
                format!("sqlite://{folder}/{name}?mode=rwc")
            }
        };
        let redis = redis().await.url();
        Job { redis, name, lease: LEASE, database, setup, begin, shape, is_fenced }
    }
}

/// Runs two and three processes of each shape, all beside each other, for so many rounds, and at least until each step had each fault.
async fn run(target: Target, is_fenced: bool, rounds: usize) -> Vec<(Shape, Tally)> {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let crews = [(Shape::One, 2), (Shape::One, 3), (Shape::Two, 2), (Shape::Two, 3)];
    let crews = crews.map(async |(shape, size)| {
        let job = target.job(shape, is_fenced, folder).await;
        (shape, Crew::start(job, size).await.work(rounds / 4).await)
    });
    join_all(crews).await
}

/// No update is lost, and no late hold commits.
async fn fenced(target: Target) {
    let mut sum = Tally::default();
    for (_, tally) in run(target, true, ROUNDS).await {
        tally.check_entries();
        assert_eq!((tally.lost(), tally.late()), (0, 0), "{target:?}: {tally}");
        sum.add(&tally);
    }
    for plan in [Shape::One, Shape::Two].into_iter().flat_map(plans) {
        assert!(sum.faults.contains_key(&plan), "{target:?}: never {plan:?}: {sum}");
    }
    println!("{target:?}: {sum}; none lost");
    assert!(sum.rounds >= ROUNDS, "{sum}");
}

/// Updates are lost: by a transaction that writes what another one has read, and at READ COMMITTED by one that does both.
async fn bare(target: Target) {
    let mut lost = Vec::new();
    for (shape, tally) in run(target, false, 0).await {
        tally.check_entries();
        println!("{target:?}, {shape:?}, not fenced: {tally}; {} lost", tally.lost());
        lost.push((shape, tally.lost()));
    }
    let protects_one = !matches!(
        target,
        Target::Postgres("read committed")
            | Target::PgBouncer("read committed")
            | Target::MariaDb("READ COMMITTED" | "REPEATABLE READ")
    );
    for (shape, lost) in lost {
        let is_protected = shape == Shape::One && protects_one;
        assert_eq!(lost == 0, is_protected, "{target:?}, {shape:?}: {lost} lost");
    }
}

macro_rules! rounds {
    ($($(#[$ignored:meta])? $name:ident: $target:expr;)*) => {$(
        mod $name {
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            $(#[$ignored])?
            async fn fenced_transactions_lose_no_update() {
                fenced($target).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            $(#[$ignored])?
            async fn others_do() {
                bare($target).await;
            }
        }
    )*};
}

rounds! {
    #[ignore = "needs PostgreSQL: cargo xtask test --with-databases"]
    postgres_read_committed: Target::Postgres("read committed");
    #[ignore = "needs PostgreSQL: cargo xtask test --with-databases"]
    postgres_repeatable_read: Target::Postgres("repeatable read");
    #[ignore = "needs PostgreSQL: cargo xtask test --with-databases"]
    postgres_serializable: Target::Postgres("serializable");
    #[ignore = "needs PostgreSQL and pgbouncer: cargo xtask test --with-databases"]
    pgbouncer_read_committed: Target::PgBouncer("read committed");
    #[ignore = "needs MariaDB: cargo xtask test --with-databases"]
    mariadb_read_committed: Target::MariaDb("READ COMMITTED");
    #[ignore = "needs MariaDB: cargo xtask test --with-databases"]
    mariadb_repeatable_read: Target::MariaDb("REPEATABLE READ");
    #[ignore = "needs MariaDB: cargo xtask test --with-databases"]
    mariadb_serializable: Target::MariaDb("SERIALIZABLE");
    #[ignore = "takes long: cargo xtask test --with-databases"]
    sqlite_wal: Target::Sqlite("WAL");
    #[ignore = "takes long: cargo xtask test --with-databases"]
    sqlite_rollback_journal: Target::Sqlite("DELETE");
    #[ignore = "takes long: cargo xtask test --with-databases"]
    sqlite_truncated_journal: Target::Sqlite("TRUNCATE");
}
