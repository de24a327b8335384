//! A throw-away MariaDB.

use lock_tests::leash::{EndBy, Leash};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection};

use crate::program::Home;

/// A running MariaDB, on a unix socket. It keeps nothing safe from a loss of power.
#[derive(Debug)]
pub struct MariaDb {
    /// Before its folder, so that the process goes first.
    _process: Leash,
    home: Home,
}

impl MariaDb {
    /// Starts a server, and waits until it answers.
    ///
    /// Panics when MariaDB is not installed, or it does not come up.
    pub async fn start() -> Self {
        let home = Home::new("mysql");
        let data = format!("--datadir={}", home.path().join("data").display());
        let options = ["--auth-root-authentication-method=normal", "--skip-test-db"];
        // It finds the files of its own installation, and no settings of this machine.
        let install = ["--no-defaults", &data].into_iter().chain(options);
        home.run("mariadb-install-db", install);
        let socket = format!("--socket={}", home.path().join("socket").display());
        let pid = format!("--pid-file={}", home.path().join("pid").display());
        let args = ["--no-defaults", &data, &socket, &pid, "--skip-networking"];
        let fast = ["--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M"];
        let url = url(&home, "mysql");
        let answers = async || MySqlConnection::connect(&url).await.is_ok();
        let args = args.into_iter().chain(fast);
        let process = home.serve("mariadbd", args, EndBy::Kill, answers).await;
        Self { _process: process, home }
    }

    /// Creates a database.
    ///
    /// Panics when there is one of that name.
    pub async fn create(&self, database: &str) -> String {
        let admin = MySqlConnection::connect(&url(&self.home, "mysql")).await;
        let mut admin = admin.expect("MariaDB takes a connection");
        let create = AssertSqlSafe(format!("CREATE DATABASE {database}"));
        let done = sqlx::raw_sql(create).execute(&mut admin).await;
        done.unwrap_or_else(|error| panic!("cannot create the database {database}: {error}"));
        url(&self.home, database)
    }
}

fn url(home: &Home, database: &str) -> String {
    format!("mysql://root@localhost/{database}?socket={}", home.path().join("socket").display())
}
