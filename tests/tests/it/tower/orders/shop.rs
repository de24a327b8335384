//! Two processes of the service, and what talks to them.

use std::path::PathBuf;

use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process, setrlimit};
use tempfile::TempDir;

use crate::support::examples::example;
use crate::tower::prelude::*;

/// More than anything here takes on a busy machine.
pub(crate) const BOUND: Duration = secs(60);

/// Two processes of the service, on one Redis and one database.
pub(crate) struct Shop {
    pub(crate) redis: RedisServer,
    pub(crate) processes: [Worker; 2],
    pub(crate) addresses: [String; 2],
    http: Client<HttpConnector, Full<Bytes>>,
    directory: TempDir,
}

impl Shop {
    /// Both processes have these variables.
    pub(crate) async fn open(envs: &[(&str, &str)]) -> Self {
        Self::open_each([envs, envs]).await
    }

    /// Each process has variables of its own.
    pub(crate) async fn open_each(envs: [&[(&str, &str)]; 2]) -> Self {
        allow_many_connections();
        let redis = RedisServer::start().await;
        let directory = TempDir::new().unwrap();
        let mut processes = [0, 1].map(|n| spawn(n, directory.path(), &redis.url(), envs[n]));
        let mut addresses = [String::new(), String::new()];
        for (process, address) in processes.iter_mut().zip(&mut addresses) {
            let line = process.next_line(BOUND).await;
            *address = line.strip_prefix("listening on ").unwrap().to_owned();
        }
        let http = Client::builder(TokioExecutor::new()).build_http();
        Self { redis, processes, addresses, http, directory }
    }

    /// What a process has logged.
    pub(crate) fn log(&self, process: usize) -> String {
        fs::read_to_string(log_file(self.directory.path(), process)).unwrap()
    }

    pub(crate) fn signal(&self, process: usize, signal: Signal) {
        let id = Pid::from_raw(self.processes[process].id().try_into().unwrap()).unwrap();
        kill_process(id, signal).unwrap();
    }

    /// The orders that are locked.
    pub(crate) async fn locked(&self) -> Vec<String> {
        let mut keys = self.redis.client().keys().await;
        keys.retain(|key| key.starts_with("shop:order:"));
        keys
    }

    /// Status and body of one request to one of the processes.
    pub(crate) async fn send(&self, process: u64, request: Request<Bytes>) -> (StatusCode, String) {
        let (mut parts, body) = request.into_parts();
        let address = &self.addresses[usize::try_from(process % 2).unwrap()];
        parts.uri = format!("http://{address}{}", parts.uri).parse().unwrap();
        let sent = self.http.request(Request::from_parts(parts, Full::new(body)));
        let response = timeout(BOUND, sent).await.expect("an answer in time").unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    /// Sends all requests at once, each to the process that it names, and gives their statuses.
    pub(crate) async fn send_at_once(
        &self,
        requests: impl Iterator<Item = (u64, Request<Bytes>)>,
    ) -> BTreeMap<u16, usize> {
        let sent = requests.map(|(process, request)| self.send(process, request));
        let answers = futures_util::future::join_all(sent).await;
        let mut statuses = BTreeMap::new();
        for (status, _) in answers {
            *statuses.entry(status.as_u16()).or_default() += 1;
        }
        statuses
    }

    pub(crate) async fn balance(&self, order: u64) -> u64 {
        let (status, body) = self.send(order, get(&format!("/orders/{order}"))).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let cents = body.strip_prefix(&format!("{{\"order\":\"{order}\",\"cents\":")).unwrap();
        cents.strip_suffix('}').unwrap().parse().unwrap()
    }
}

pub(crate) fn get(path: &str) -> Request<Bytes> {
    Request::get(path).body(Bytes::new()).unwrap()
}

pub(crate) fn money(what: &str, order: u64, cents: u64) -> Request<Bytes> {
    let request = Request::post(format!("/orders/{order}/{what}"));
    let request = request.header("content-type", "application/json");
    request.body(format!("{{\"cents\":{cents}}}").into()).unwrap()
}

/// A process that is to write its log to a file.
pub(crate) fn spawn(n: usize, directory: &Path, redis: &str, envs: &[(&str, &str)]) -> Worker {
    let (database, log) = (directory.join("orders.db"), log_file(directory, n));
    let ours = [("PORT", "0"), ("REDIS_URL", redis), ("DATABASE", database.to_str().unwrap())];
    let envs: Vec<_> = ours.into_iter().chain(envs.iter().copied()).collect();
    let program = example("orders");
    let args = ["-c", r#"exec "$0" 2>"$1""#, program.to_str().unwrap(), log.to_str().unwrap()];
    Worker::spawn("sh", &args, &envs)
}

pub(crate) fn log_file(directory: &Path, process: usize) -> PathBuf {
    directory.join(format!("{process}.log"))
}

/// A connection for every payment takes more files than a process may have open by default.
fn allow_many_connections() {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(4096, |most| most.min(4096));
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(wanted);
        setrlimit(Resource::Nofile, limit).unwrap();
    }
}
