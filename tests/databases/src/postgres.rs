//! A throw-away PostgreSQL.

use lock_tests::leash::{EndBy, Leash};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::program::{Home, settings};

/// A running PostgreSQL, on a unix socket. It keeps nothing safe from a loss of power.
#[derive(Debug)]
pub struct Postgres {
    /// Before its folder, so that the process goes first.
    _process: Leash,
    home: Home,
}

impl Postgres {
    /// Starts a server, and waits until it answers.
    ///
    /// Panics when PostgreSQL is not installed, or it does not come up.
    pub async fn start() -> Self {
        let home = Home::new("postgres");
        let (data, sockets) = (home.path().join("data"), home.path().display().to_string());
        let data = data.display().to_string();
        let options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"];
        home.run("initdb", ["--pgdata", &data, "--no-sync"].into_iter().chain(options));
        let fast = settings(&["fsync=off", "synchronous_commit=off", "full_page_writes=off"]);
        let small = settings(&["listen_addresses=", "max_connections=200", "shared_buffers=32MB"]);
        let args = ["-D", &data, "-k", &sockets].into_iter().chain(fast).chain(small);
        let url = url(&sockets, 5432, "postgres");
        let answers = async || PgConnection::connect(&url).await.is_ok();
        let process = home.serve("postgres", args, EndBy::Quit, answers).await;
        Self { _process: process, home }
    }

    /// Creates a database.
    ///
    /// Panics when there is one of that name.
    pub async fn create(&self, database: &str) -> String {
        self.run(&format!("CREATE DATABASE {database}")).await;
        self.url(database)
    }

    /// Gives the transactions of a database this isolation level, whatever connection they come over.
    ///
    /// Panics when the server refuses.
    pub async fn isolate(&self, database: &str, level: &str) {
        let set = "SET default_transaction_isolation =";
        self.run(&format!("ALTER DATABASE {database} {set} '{level}'")).await;
    }

    /// The address of a database.
    pub fn url(&self, database: &str) -> String {
        url(&self.sockets(), 5432, database)
    }

    /// The folder of the server's socket.
    pub fn sockets(&self) -> String {
        self.home.path().display().to_string()
    }

    async fn run(&self, statement: &str) {
        let admin = PgConnection::connect(&self.url("postgres")).await;
        let mut admin = admin.expect("PostgreSQL takes a connection");
        let done = sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut admin).await;
        done.unwrap_or_else(|error| panic!("`{statement}` failed: {error}"));
    }
}

pub(crate) fn url(sockets: &str, port: u16, database: &str) -> String {
    format!("postgres://postgres@localhost:{port}/{database}?host={sockets}")
}
