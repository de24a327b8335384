//! Sentinels that watch a throw-away server.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use tempfile::TempDir;

use super::builder::{
    CERTIFICATE, PORT_ATTEMPTS, PRIVATE_KEY, free_port, working_dir, write_certificate,
};
use super::{RedisServer, StartError, binary, launch, percent_encoded, socket_in, socket_url};
use crate::eventually::eventually;
use crate::leash::Leash;
use crate::raw_client::RawClient;

/// How long sentinels may take to find each other, and to agree.
const AGREE_BOUND: Duration = Duration::from_secs(30);

/// How often sentinels look and talk, in milliseconds, in place of every 1 to 10 s: tests do not wait.
///
/// While a master is down, sentinels ask its replicas for their state once a second, whatever they are told
/// here, and promote none whose state is older than five ping periods. Shorter ones would have a
/// fail-over fail by chance, and the next one comes six seconds later.
/// And one that was kept from running for two seconds does nothing for half a minute ("tilt").
const PERIODS: [&str; 10] = [
    "ping-period",
    "300",
    "info-period",
    "200",
    "ask-period",
    "200",
    "publish-period",
    "300",
    "tilt-trigger",
    "60000",
];

/// Sentinels of one master, killed when dropped or when the test process ends.
#[derive(Debug)]
pub struct Sentinels {
    nodes: Vec<Sentinel>,
    scheme: &'static str,
    master: String,
    password: Option<String>,
}

#[derive(Debug)]
struct Sentinel {
    /// Before `dir`, so that the process goes first.
    process: Mutex<Leash>,
    _dir: TempDir,
    port: u16,
    client: RawClient,
}

/// The settings of [`Sentinels`].
#[derive(Debug, Clone)]
#[must_use = "nothing runs before `start()`"]
pub struct SentinelsBuilder {
    master: String,
    password: Option<String>,
    servers_password: Option<String>,
    tls: Option<Tls>,
}

/// A certificate, its key, and the authority of all certificates, in PEM.
#[derive(Debug, Clone)]
struct Tls {
    certificate: String,
    private_key: String,
    authority: String,
}

impl SentinelsBuilder {
    /// Requires this password of every client of the sentinels.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// The password of the servers.
    pub fn servers_password(mut self, password: &str) -> Self {
        self.servers_password = Some(password.to_owned());
        self
    }

    /// Speaks TLS only, to clients and servers: all show certificates of this authority. In PEM.
    pub fn tls(mut self, certificate: &str, private_key: &str, authority: &str) -> Self {
        self.tls = Some(Tls {
            certificate: certificate.to_owned(),
            private_key: private_key.to_owned(),
            authority: authority.to_owned(),
        });
        self
    }

    /// Starts three sentinels that watch `master`, and waits until all know each other and so many
    /// replicas. A master that is silent for half a second is replaced.
    ///
    /// Panics when they do not come up.
    pub async fn start(self, master: &RedisServer, replicas: usize) -> Sentinels {
        let mut nodes = Vec::new();
        for _ in 0..3 {
            nodes.push(self.node(master.port()).await);
        }
        let scheme = if self.tls.is_some() { "rediss" } else { "redis" };
        let Self { master, password, .. } = self;
        let sentinels = Sentinels { nodes, scheme, master, password };
        for node in &sentinels.nodes {
            eventually(AGREE_BOUND, "a sentinel knows all others and the replicas", async || {
                let state = sentinels.state(node).await;
                state["num-other-sentinels"] == "2" && state["num-slaves"] == replicas.to_string()
            })
            .await;
        }
        sentinels
    }

    async fn node(&self, master: u16) -> Sentinel {
        for _ in 0..PORT_ATTEMPTS {
            match self.launch(free_port(), master).await {
                Ok(node) => return node,
                Err(StartError::PortTaken) => {}
                Err(error) => panic!("{}", error.report()),
            }
        }
        panic!("{}", StartError::PortTaken.report());
    }

    fn config(&self, dir: &TempDir, own: u16, port: u16) -> String {
        let Self { master, password, servers_password, tls } = self;
        let folder = dir.path().display();
        let mut text = format!(
            "bind 127.0.0.1\nprotected-mode no\ndir {folder}\nunixsocket {}\n\
             sentinel monitor {master} 127.0.0.1 {port} 2\n\
             sentinel down-after-milliseconds {master} 500\n\
             sentinel failover-timeout {master} 3000\n",
            socket_in(dir).display()
        );
        let mut add = |line: String| text.push_str(&line);
        if let Some(password) = servers_password {
            add(format!("sentinel auth-pass {master} {password}\n"));
        }
        if let Some(password) = password {
            add(format!("requirepass {password}\nsentinel sentinel-pass {password}\n"));
        }
        match tls {
            None => add(format!("port {own}\n")),
            Some(Tls { certificate, private_key, authority }) => {
                write_certificate(dir, certificate, private_key);
                fs::write(dir.path().join("authority.pem"), authority)
                    .expect("the sentinel's directory is writable");
                add(format!(
                    "port 0\ntls-port {own}\ntls-replication yes\n\
                     tls-ca-cert-file {folder}/authority.pem\n\
                     tls-cert-file {folder}/{CERTIFICATE}\ntls-key-file {folder}/{PRIVATE_KEY}\n"
                ));
            }
        }
        text
    }

    async fn launch(&self, port: u16, master: u16) -> Result<Sentinel, StartError> {
        let dir = working_dir("lock-tests-sentinel-");
        let file = dir.path().join("sentinel.conf");
        fs::write(&file, self.config(&dir, port, master))
            .expect("the sentinel's directory is writable");
        let mut command = Command::new(binary::path());
        command.arg(&file).arg("--sentinel");
        let password = self.password.as_deref().map(percent_encoded);
        let client = RawClient::new(&socket_url(&socket_in(&dir), password.as_deref()));
        let set = [&["SENTINEL", "DEBUG"][..], &PERIODS].concat();
        let answers = async || client.try_cmd(&set).await;
        let process = launch(command, &dir, "a sentinel", answers).await?;
        Ok(Sentinel { process: Mutex::new(process), _dir: dir, port, client })
    }
}

impl Sentinel {
    fn process(&self) -> std::sync::MutexGuard<'_, Leash> {
        self.process.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Sentinels {
    /// Sentinels that call their master so, with other settings.
    pub fn builder(master: &str) -> SentinelsBuilder {
        SentinelsBuilder {
            master: master.to_owned(),
            password: None,
            servers_password: None,
            tls: None,
        }
    }

    /// The addresses of all, with their password if they have one.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        let password = self.password.as_deref().map(percent_encoded);
        let password = password.map_or_else(String::new, |password| format!(":{password}@"));
        let url = |node: &Sentinel| format!("{}://{password}127.0.0.1:{}", self.scheme, node.port);
        self.nodes.iter().map(url).collect()
    }

    /// The port of one.
    #[must_use]
    pub fn port(&self, node: usize) -> u16 {
        self.nodes[node].port
    }

    /// The side channel to one.
    #[must_use]
    pub fn client(&self, node: usize) -> RawClient {
        self.nodes[node].client.clone()
    }

    /// Kills one (SIGKILL).
    ///
    /// Panics when the system refuses.
    pub fn kill(&self, node: usize) {
        self.nodes[node].process().kill().expect("one's own child can be killed");
    }

    /// Stops one (SIGSTOP).
    ///
    /// Panics when it has been killed.
    pub fn pause(&self, node: usize) {
        self.nodes[node].process().stop();
    }

    /// Lets a paused one go on (SIGCONT).
    ///
    /// Panics when it has been killed.
    pub fn resume(&self, node: usize) {
        self.nodes[node].process().cont();
    }

    /// Has all that run talk to each other and to the servers this often only. How long one waits before
    /// it makes a replica of an old master that is back is four times as long.
    ///
    /// Panics when one does not answer.
    pub async fn publish_every(&self, period: Duration) {
        let millis = period.as_millis().to_string();
        for node in &self.nodes {
            node.client.cmd(&["SENTINEL", "DEBUG", "publish-period", &millis]).await;
        }
    }

    /// Which port of 127.0.0.1 one names as the master's.
    ///
    /// Panics when it does not answer.
    pub async fn master_port(&self, node: usize) -> u16 {
        let ask = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", &self.master];
        let (_, port): (String, u16) = self.nodes[node].client.get(&ask).await;
        port
    }

    /// Waits until one of those that run names another master than the server of `port`, and says which.
    ///
    /// Panics when none does within 30 s.
    pub async fn wait_for_promotion(&self, port: u16, among: &[usize]) -> u16 {
        let mut found = port;
        eventually(AGREE_BOUND, "another master", async || {
            for node in among {
                found = self.master_port(*node).await;
                if found != port {
                    return true;
                }
            }
            false
        })
        .await;
        found
    }

    async fn state(&self, node: &Sentinel) -> BTreeMap<String, String> {
        node.client.get(&["SENTINEL", "MASTER", &self.master]).await
    }
}
