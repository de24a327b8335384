//! A throw-away `redis-server`, alone on a free port or a unix socket.
//!
//! It keeps nothing on disk, lives in a temporary directory, and is killed when its
//! [`RedisServer`] is dropped or the test process ends. The binary is the one named by the
//! environment variable `REDIS_SERVER`, else `redis-server` on the `PATH`; `cargo xtask test` sees
//! to it that there is one.

mod binary;
mod builder;
mod observe;
mod sentinel;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{RedisResult, Value};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::leash::{EndBy, Leash};
use crate::raw_client::RawClient;

pub use builder::RedisServerBuilder;
pub use observe::{ClientType, MessageLog};
pub use sentinel::{Sentinels, SentinelsBuilder};

/// How long a server may take to answer, also in callgrind on a busy machine, and a restarted one to get its port back.
const START_BOUND: Duration = Duration::from_secs(120);

/// The pause between two looks at a server that starts.
const START_PAUSE: Duration = Duration::from_millis(5);

/// A running `redis-server`.
///
/// Its methods take `&self`, so one server may stand in a `static` and serve all tests of a binary
/// (with keys of their own); a test that kills, pauses or fills a server starts its own.
#[derive(Debug)]
pub struct RedisServer {
    /// `None` while killed. Before `dir`, so that the process goes first.
    process: Mutex<Option<Leash>>,
    dir: TempDir,
    address: Address,
    password: Option<String>,
    args: Vec<String>,
    envs: Vec<(String, String)>,
    client: RawClient,
}

/// Where clients reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Address {
    /// This port of 127.0.0.1.
    Tcp(u16),
    /// This port of 127.0.0.1, with TLS.
    Tls(u16),
    /// The socket in the server's directory, which is there in any case, and nothing else.
    UnixSocket,
}

/// Why a server did not come up.
enum StartError {
    PortTaken,
    Other(String),
}

impl RedisServer {
    /// Starts a server with default settings on a free port, and waits until it answers.
    ///
    /// Panics when there is no `redis-server`, or it does not come up.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// A server with other settings.
    pub fn builder() -> RedisServerBuilder {
        RedisServerBuilder::default()
    }

    /// The server's address, with its password if it has one.
    pub fn url(&self) -> String {
        self.url_with_password(self.password.as_deref())
    }

    /// The server's address with this password, or none, in place of the right one.
    pub fn url_with_password(&self, password: Option<&str>) -> String {
        let password = password.map(percent_encoded);
        let (scheme, port) = match self.address {
            Address::Tcp(port) => ("redis", port),
            Address::Tls(port) => ("rediss", port),
            Address::UnixSocket => return socket_url(&self.socket(), password.as_deref()),
        };
        let password = password.map_or_else(String::new, |password| format!(":{password}@"));
        format!("{scheme}://{password}127.0.0.1:{port}")
    }

    /// The server's TCP port, with TLS or without.
    ///
    /// Panics when it listens on a unix socket only.
    pub fn port(&self) -> u16 {
        match self.address {
            Address::Tcp(port) | Address::Tls(port) => port,
            Address::UnixSocket => {
                panic!("this server has no port: it was started with unix_socket()")
            }
        }
    }

    /// The side channel to this server. It does not go through any [`Proxy`](crate::Proxy), and
    /// all clones share one connection.
    pub fn client(&self) -> RawClient {
        self.client.clone()
    }

    /// Kills the server (SIGKILL), paused or not, and returns when it is gone.
    ///
    /// Panics when the system refuses.
    pub fn kill(&self) {
        if let Some(mut process) = self.process().take() {
            process.kill().expect("one's own child can be killed");
        }
    }

    /// Asks the server to end (SHUTDOWN), and waits until it has.
    ///
    /// # Panics
    ///
    /// When it still runs after `bound`.
    pub async fn end(&self, bound: Duration) {
        // It closes the connection in place of a reply.
        let _ = self.client.try_cmd(&["SHUTDOWN", "NOSAVE"]).await;
        let Some(mut process) = self.process().take() else { return };
        let deadline = Instant::now() + bound;
        while process.try_wait().expect("one's own child can be waited for").is_none() {
            assert!(Instant::now() < deadline, "redis-server still runs {bound:?} after SHUTDOWN");
            sleep(START_PAUSE).await;
        }
    }

    /// Starts the server again at the same address, killing it first if it runs.
    ///
    /// It comes back empty, unless it was built with arguments that make it persist.
    ///
    /// Panics when it does not come up.
    pub async fn restart(&self) {
        self.kill();
        let deadline = Instant::now() + START_BOUND;
        loop {
            match self.launch().await {
                Ok(()) => return,
                // An outgoing connection of another program may be using the port as its own for a moment.
                Err(StartError::PortTaken) if Instant::now() < deadline => sleep(START_PAUSE).await,
                Err(error) => panic!("{}", error.report()),
            }
        }
    }

    /// Gives a server with TLS another certificate and key, in PEM, from its next
    /// [`restart`](Self::restart) on.
    ///
    /// Panics when they cannot be written.
    pub fn replace_certificate(&self, certificate: &str, private_key: &str) {
        builder::write_certificate(&self.dir, certificate, private_key);
    }

    /// Stops the server (SIGSTOP): connections stay open, and nothing answers.
    ///
    /// Panics when it has been killed.
    pub fn pause(&self) {
        self.process().as_ref().expect("only a running server can be paused").stop();
    }

    /// Lets a paused server go on (SIGCONT).
    ///
    /// Panics when it has been killed.
    pub fn resume(&self) {
        self.process().as_ref().expect("only a running server can be resumed").cont();
    }

    /// Starts the process and waits until it answers at its socket, where no other server can.
    async fn launch(&self) -> Result<(), StartError> {
        let mut command = Command::new(binary::path());
        command.args(&self.args).envs(self.envs.iter().cloned());
        let answers = async || self.client.try_cmd(&["PING"]).await;
        *self.process() = Some(launch(command, &self.dir, "redis-server", answers).await?);
        Ok(())
    }

    fn process(&self) -> MutexGuard<'_, Option<Leash>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn socket(&self) -> PathBuf {
        socket_in(&self.dir)
    }
}

/// Starts `what` with its log in that directory, and waits until it answers.
async fn launch(
    mut command: Command,
    dir: &TempDir,
    what: &str,
    answers: impl AsyncFn() -> RedisResult<Value>,
) -> Result<Leash, StartError> {
    let file = dir.path().join("log");
    let output = File::create(&file).expect("a directory of one's own is writable");
    command.stdin(Stdio::null());
    command.stdout(output.try_clone().expect("a file can be duplicated")).stderr(output);
    let mut process = Leash::spawn(&mut command, Some(dir.path()), EndBy::Kill)
        .unwrap_or_else(|error| panic!("{}", binary::missing(&error)));
    let deadline = Instant::now() + START_BOUND;
    loop {
        let log = || fs::read_to_string(&file).unwrap_or_default();
        if let Some(status) = process.try_wait().expect("one's own child can be waited for") {
            return Err(match log() {
                log if log.contains("Address already in use") => StartError::PortTaken,
                log => StartError::Other(format!("{what} ended with {status}:\n{log}")),
            });
        }
        match answers().await {
            Ok(_) => return Ok(process),
            Err(_) if Instant::now() < deadline => sleep(START_PAUSE).await,
            Err(error) => {
                let report =
                    format!("{what} does not answer in {START_BOUND:?}: {error}\n{}", log());
                return Err(StartError::Other(report));
            }
        }
    }
}

impl StartError {
    fn report(self) -> String {
        match self {
            Self::PortTaken => "redis-server found no free port".to_owned(),
            Self::Other(report) => report,
        }
    }
}

fn socket_in(dir: &TempDir) -> PathBuf {
    dir.path().join("redis.sock")
}

fn socket_url(socket: &std::path::Path, password: Option<&str>) -> String {
    let path = socket.display();
    password.map_or_else(|| format!("unix://{path}"), |pass| format!("unix://{path}?pass={pass}"))
}

/// Escapes whatever means something in a URL.
fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut url, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                url.push(char::from(byte));
            }
            _ => write!(url, "%{byte:02X}").expect("a string takes all that is written to it"),
        }
        url
    })
}
