//! A throw-away pgbouncer.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use lock_tests::leash::{EndBy, Leash};
use sqlx::{Connection, PgConnection};

use crate::Postgres;
use crate::postgres::url;
use crate::program::Home;

/// A pgbouncer that gives clients a connection for one transaction at a time.
#[derive(Debug)]
pub struct PgBouncer {
    /// Before its folder, so that the process goes first.
    _process: Leash,
    home: Home,
}

impl PgBouncer {
    /// Starts a pgbouncer with this number of connections to each database.
    ///
    /// Panics when pgbouncer is not installed, or it does not come up.
    pub async fn start(postgres: &Postgres, connections: u32) -> Self {
        let home = Home::new("postgres");
        let sockets = home.path().display().to_string();
        let settings = home.path().join("pgbouncer.ini");
        let text = format!(
            "[databases]\n* = host={} port=5432 user=postgres\n\
             [pgbouncer]\npool_mode = transaction\nauth_type = any\nlisten_port = 6432\n\
             unix_socket_dir = {sockets}\ndefault_pool_size = {connections}\nmax_client_conn = 200\n\
             ignore_startup_parameters = extra_float_digits\n",
            postgres.sockets()
        );
        fs::write(&settings, text).expect("the folder is writable");
        let readable = fs::Permissions::from_mode(0o644);
        fs::set_permissions(&settings, readable).expect("one's own file can be given to others");
        let database = url(&sockets, 6432, "postgres");
        let answers = async || PgConnection::connect(&database).await.is_ok();
        let process = home.serve("pgbouncer", [settings], EndBy::Kill, answers).await;
        Self { _process: process, home }
    }

    /// The address of a database through this proxy.
    pub fn url(&self, database: &str) -> String {
        url(&self.home.path().display().to_string(), 6432, database)
    }
}
