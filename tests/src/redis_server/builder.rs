//! Settings of a server, and its first start.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use tempfile::TempDir;

use super::{Address, RedisServer, StartError, binary, percent_encoded, socket_in, socket_url};
use crate::raw_client::RawClient;

/// How many ports to try when others keep taking the one that was free a moment ago.
pub(super) const PORT_ATTEMPTS: usize = 20;

/// The files of a server's own certificate and key.
pub(super) const CERTIFICATE: &str = "server.pem";
pub(super) const PRIVATE_KEY: &str = "server.key";

/// The settings of a [`RedisServer`].
#[derive(Debug, Clone, Default)]
#[must_use = "nothing runs before `start()`"]
pub struct RedisServerBuilder {
    unix_socket: bool,
    password: Option<String>,
    tls: Option<Tls>,
    args: Vec<String>,
    envs: Vec<(String, String)>,
}

/// What a server shows and asks for over TLS, in PEM.
#[derive(Debug, Clone)]
struct Tls {
    certificate: String,
    private_key: String,
    clients: Option<String>,
}

/// A directory for a server: in memory where there is such a place. Sentinels and nodes of a cluster wait
/// for their configuration to reach the disk, for seconds on a busy one, and take that for a fault.
pub(super) fn working_dir(prefix: &str) -> TempDir {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let dir = tempfile::Builder::new().prefix(prefix).tempdir_in(place);
    dir.expect("the directory for temporary files is writable")
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

    /// Listens with TLS only, showing this certificate and key, both in PEM.
    pub fn tls(mut self, certificate: &str, private_key: &str) -> Self {
        let (certificate, private_key) = (certificate.to_owned(), private_key.to_owned());
        self.tls = Some(Tls { certificate, private_key, clients: None });
        self
    }

    /// Demands of every client over TLS a certificate of this authority, in PEM.
    ///
    /// Panics without [`tls`](Self::tls) before it.
    pub fn client_authority(mut self, authority: &str) -> Self {
        let tls = self.tls.as_mut().expect("`tls()` comes before `client_authority()`");
        tls.clients = Some(authority.to_owned());
        self
    }

    /// Adds a setting, as on the command line: `arg("--maxmemory", "100kb")`. The last of two
    /// counts, so that this also overrides the harness's own.
    pub fn arg(mut self, name: &str, value: &str) -> Self {
        self.args.extend([name.to_owned(), value.to_owned()]);
        self
    }

    /// Starts it with these variables in its environment.
    pub fn envs(mut self, envs: &[(String, String)]) -> Self {
        self.envs.extend_from_slice(envs);
        self
    }

    /// Follows the server at this port of 127.0.0.1, or behind a proxy there, from the start; see
    /// [`RedisServer::wait_for_replicas`].
    pub fn replica_of(mut self, master: u16) -> Self {
        let words = ["--replicaof".to_owned(), "127.0.0.1".to_owned(), master.to_string()];
        self.args.extend(words);
        self
    }

    /// Starts the server and waits until it answers.
    ///
    /// Panics when there is no `redis-server`, or it does not come up.
    pub async fn start(self) -> RedisServer {
        for _ in 0..PORT_ATTEMPTS {
            let address = match (self.unix_socket, &self.tls) {
                (true, _) => Address::UnixSocket,
                (false, None) => Address::Tcp(free_port()),
                (false, Some(_)) => Address::Tls(free_port()),
            };
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
        let dir = working_dir("lock-tests-redis-");
        let socket = socket_in(&dir);
        let password = self.password.as_deref().map(percent_encoded);
        let client = RawClient::new(&socket_url(&socket, password.as_deref()));

        // Zero: no port without TLS.
        let port = if let Address::Tcp(port) = address { port } else { 0 };
        let mut args: Vec<String> = [
            ("--dir", dir.path().display().to_string()),
            ("--unixsocket", socket.display().to_string()),
            ("--bind", "127.0.0.1".to_owned()),
            ("--port", port.to_string()),
            ("--save", String::new()),
            ("--appendonly", "no".to_owned()),
            // A replica that comes is served at once and not with others that may come.
            ("--repl-diskless-sync-delay", "0".to_owned()),
        ]
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect();
        args.extend(binary::debug_args().iter().map(ToString::to_string));
        if let Some(password) = &self.password {
            args.extend(["--requirepass".to_owned(), password.clone()]);
        }
        if let (Address::Tls(port), Some(tls)) = (address, &self.tls) {
            args.extend(["--tls-port".to_owned(), port.to_string()]);
            args.extend(tls.args(&dir));
        }
        args.extend(self.args.iter().cloned());
        let password = self.password.clone();
        let envs = self.envs.clone();
        RedisServer { process: Mutex::new(None), dir, address, password, args, envs, client }
    }
}

impl Tls {
    /// Writes the files, and says where they are.
    fn args(&self, dir: &TempDir) -> Vec<String> {
        write_certificate(dir, &self.certificate, &self.private_key);
        let path = |name| dir.path().join(name).display().to_string();
        let mut args = vec![
            ("--tls-cert-file", path(CERTIFICATE)),
            ("--tls-key-file", path(PRIVATE_KEY)),
            ("--tls-auth-clients", if self.clients.is_some() { "yes" } else { "no" }.to_owned()),
        ];
        if let Some(authority) = &self.clients {
            let file = dir.path().join("clients.pem");
            fs::write(&file, authority).expect("the server's directory is writable");
            args.push(("--tls-ca-cert-file", file.display().to_string()));
        }
        args.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }
}

pub(super) fn write_certificate(dir: &TempDir, certificate: &str, private_key: &str) {
    for (name, text) in [(CERTIFICATE, certificate), (PRIVATE_KEY, private_key)] {
        fs::write(dir.path().join(name), text).expect("the server's directory is writable");
    }
}

/// A port of 127.0.0.1 that no process listens on.
///
/// Not out of the range from which the system takes the ports of connections *out* (32768 and up
/// on Linux, 49152 and up elsewhere): while a server of such a port is down, a client that keeps
/// reconnecting can be given that very port, is then connected to itself, and keeps the server
/// from coming back.
///
/// Given out once in a process: no other test's server answers where one was killed.
pub(super) fn free_port() -> u16 {
    static GIVEN_OUT: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    loop {
        let port = fastrand::u16(10_000..32_000);
        let is_free = TcpListener::bind(("127.0.0.1", port)).is_ok();
        if is_free && GIVEN_OUT.lock().unwrap_or_else(PoisonError::into_inner).insert(port) {
            return port;
        }
    }
}
