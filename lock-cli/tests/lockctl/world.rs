//! A server, clients of services, and `lockctl` in a process of its own.

use std::process::{Output, Stdio};
use std::time::Duration;

use lock_runtime::{LockClient, LockOptions, Wait};
use lock_tests::{RedisServer, eventually};
use serde_json::Value;
use tokio::process::{Child, Command};

/// The bound of what takes a moment.
pub(crate) const SOON: Duration = Duration::from_secs(10);

pub(crate) struct World {
    pub(crate) server: RedisServer,
    pub(crate) billing: LockClient,
    pub(crate) orders: LockClient,
}

impl World {
    pub(crate) async fn start() -> Self {
        let server = RedisServer::start().await;
        let (billing, orders) =
            (service(&server, "billing").await, service(&server, "orders").await);
        Self { server, billing, orders }
    }

    /// Runs `lockctl` against the server.
    pub(crate) async fn run(&self, args: &[&str]) -> Ran {
        lockctl(&[&["--url", &self.server.url()], args].concat()).await
    }

    /// Starts `lockctl` against the server.
    pub(crate) fn begin(&self, args: &[&str]) -> Child {
        begin(&[&["--url", &self.server.url()], args].concat())
    }

    /// The process of a service, as `lockctl` names it.
    pub(crate) fn process(service: &str) -> String {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        format!("{service}@{}:{}", host.trim(), std::process::id())
    }
}

pub(crate) async fn service(server: &RedisServer, name: &str) -> LockClient {
    let wait = LockOptions::new().wait(Wait::UpTo(SOON));
    let builder = LockClient::builder().service(name).options(wait);
    builder.connect(&server.url()).await.unwrap()
}

/// Waits until that many acquires of the client wait.
pub(crate) async fn waits(client: &LockClient, count: usize) {
    eventually(SOON, "they wait", async || client.admin().waiting().len() == count).await;
}

/// What `lockctl` printed, and its exit code.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts that it failed with this code, in one line that says that.
    pub(crate) fn failed(&self, code: i32, says: &str) {
        assert_eq!((self.code, self.stderr.lines().count()), (code, 1), "{self:?}");
        assert!(self.stderr.starts_with("lockctl: ") && self.stderr.contains(says), "{self:?}");
    }
}

pub(crate) fn command(args: &[&str]) -> Command {
    // A shell ignores signals for what it runs in the background, and a test program there inherits that.
    let mut command = Command::new("env");
    command
        .args(["--default-signal", env!("CARGO_BIN_EXE_lockctl")])
        .args(args)
        .env_remove("LOCK_URL")
        .env_remove("LOCK_NAMESPACE")
        .stdin(Stdio::null());
    command
}

/// Starts `lockctl`, whose output can be read.
pub(crate) fn begin(args: &[&str]) -> Child {
    let mut command = command(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap()
}

pub(crate) async fn lockctl(args: &[&str]) -> Ran {
    ended(begin(args)).await
}

/// Waits until it ends.
pub(crate) async fn ended(child: Child) -> Ran {
    let Output { status, stdout, stderr } = child.wait_with_output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: status.code().unwrap(), stdout: text(stdout), stderr: text(stderr) }
}
