//! One server of each kind for all tests of this process, each started by the first test that needs it.

use std::sync::atomic::{AtomicUsize, Ordering};

use lock_database_tests::{MariaDb, PgBouncer, Postgres};
use lock_tests::RedisServer;
use tokio::sync::OnceCell;

static REDIS: OnceCell<RedisServer> = OnceCell::const_new();
static POSTGRES: OnceCell<Postgres> = OnceCell::const_new();
static PGBOUNCER: OnceCell<PgBouncer> = OnceCell::const_new();
static MARIADB: OnceCell<MariaDb> = OnceCell::const_new();

/// Fewer than the clients of one test, so that transactions of several clients share one.
const POOLED: u32 = 6;

pub(crate) async fn redis() -> &'static RedisServer {
    REDIS.get_or_init(RedisServer::start).await
}

pub(crate) async fn postgres() -> &'static Postgres {
    POSTGRES.get_or_init(Postgres::start).await
}

pub(crate) async fn pgbouncer() -> &'static PgBouncer {
    PGBOUNCER.get_or_init(async || PgBouncer::start(postgres().await, POOLED).await).await
}

pub(crate) async fn mariadb() -> &'static MariaDb {
    MARIADB.get_or_init(MariaDb::start).await
}

/// A name that no other lock and no other database of this process has.
pub(crate) fn fresh_name() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
