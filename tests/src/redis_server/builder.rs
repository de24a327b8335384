//! Settings of a server, and its first start.

use std::net::TcpListener;
use std::sync::Mutex;

use super::{Address, RedisServer, StartError, binary, percent_encoded, socket_in, socket_url};
use crate::raw_client::RawClient;

/// How many ports to try when others keep taking the one that was free a moment ago.
const PORT_ATTEMPTS: usize = 20;

/// The settings of a [`RedisServer`].
#[derive(Debug, Clone, Default)]
#[must_use = "nothing runs before `start()`"]
pub struct RedisServerBuilder {
    unix_socket: bool,
    password: Option<String>,
    args: Vec<String>,
}

impl RedisServerBuilder {
    /// Listens on a unix socket in the server's directory, and on no port.
    pub fn unix_socket(mut self) -> Self {
        self.unix_socket = true;
        self
    }

    /// Requires this password of every client. [`RedisServer::url`] carries it.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Adds a setting, as on the command line: `arg("--maxmemory", "100kb")`. The last of two
    /// counts, so that this also overrides the harness's own.
    pub fn arg(mut self, name: &str, value: &str) -> Self {
        self.args.extend([name.to_owned(), value.to_owned()]);
        self
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Panics
    ///
    /// When there is no `redis-server`, or it does not come up.
    pub async fn start(self) -> RedisServer {
        for _ in 0..PORT_ATTEMPTS {
            let address =
                if self.unix_socket { Address::UnixSocket } else { Address::Tcp(free_port()) };
            let server = self.server(address);
            match server.launch().await {
                Ok(()) => return server,
                // Taken between our look and the server's.
                Err(StartError::PortTaken) => {}
                Err(error) => panic!("{}", error.report()),
            }
        }
        panic!("{}", StartError::PortTaken.report());
    }

    /// The server before its first start.
    fn server(&self, address: Address) -> RedisServer {
        let dir = tempfile::Builder::new()
            .prefix("lock-tests-redis-")
            .tempdir()
            .expect("the system's temporary directory is writable");
        let socket = socket_in(&dir);
        let password = self.password.as_deref().map(percent_encoded);
        let client = RawClient::new(&socket_url(&socket, password.as_deref()));

        let port = if let Address::Tcp(port) = address { port } else { 0 };
        let mut args: Vec<String> = [
            ("--dir", dir.path().display().to_string()),
            ("--unixsocket", socket.display().to_string()),
            ("--bind", "127.0.0.1".to_owned()),
            ("--port", port.to_string()),
            ("--save", String::new()),
            ("--appendonly", "no".to_owned()),
        ]
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect();
        args.extend(binary::debug_args().iter().map(ToString::to_string));
        if let Some(password) = &self.password {
            args.extend(["--requirepass".to_owned(), password.clone()]);
        }
        args.extend(self.args.iter().cloned());
        let password = self.password.clone();
        RedisServer { process: Mutex::new(None), dir, address, password, args, client }
    }
}

/// A port of 127.0.0.1 that nobody listens on.
///
/// Not out of the range from which the system takes the ports of connections *out* (32768 and up
/// on Linux, 49152 and up elsewhere): while a server of such a port is down, a client that keeps
/// reconnecting can be given that very port, is then connected to itself, and keeps the server
/// from coming back.
fn free_port() -> u16 {
    loop {
        let port = fastrand::u16(10_000..32_000);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
