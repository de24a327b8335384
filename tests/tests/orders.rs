//! The example `orders` as it is meant to be used: two processes, one Redis, many clients at once.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests as well")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use lock_tests::{RedisServer, Worker};
use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process, setrlimit};
use tokio::time::timeout;

/// More than anything here takes on a busy machine.
const BOUND: Duration = Duration::from_secs(60);

const ORDERS: u64 = 20;
const PAYMENTS: u64 = 1000;

/// Where the example's binary is.
///
/// Cargo tells a test where its own package's binaries are, and says nothing of another package's
/// examples; `cargo test --workspace` has built them, `cargo test -p lock-tests` has not. So cargo is
/// asked: in the first case it finds nothing to do, because `--workspace` makes it choose the same
/// features. The directory and the profile are those of this test.
static BINARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().and_then(Path::parent).unwrap();
    let (target, profile) = (built.parent().unwrap(), built.file_name().unwrap());
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--workspace", "--example", "orders", "--target-dir"])
        .arg(target)
        .arg("--profile")
        .arg(if profile == "debug" { "dev".as_ref() } else { profile })
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .unwrap();
    assert!(status.success(), "cargo cannot build the example: {status}");
    built.join("examples").join(format!("orders{}", std::env::consts::EXE_SUFFIX))
});

/// Two processes of the service, on one Redis.
struct Shop {
    redis: RedisServer,
    processes: [Worker; 2],
    addresses: [String; 2],
    http: Client<HttpConnector, Full<Bytes>>,
}

impl Shop {
    async fn open(locks: &str) -> Self {
        allow_many_connections();
        let redis = RedisServer::start().await;
        let url = redis.url();
        let envs = [("PORT", "0"), ("REDIS_URL", url.as_str()), ("LOCKS", locks)];
        let mut processes = [(), ()].map(|()| Worker::spawn(&*BINARY, &[], &envs));
        let mut addresses = [String::new(), String::new()];
        for (process, address) in processes.iter_mut().zip(&mut addresses) {
            let line = process.next_line(BOUND).await;
            *address = line.strip_prefix("listening on ").unwrap().to_owned();
        }
        Self {
            redis,
            processes,
            addresses,
            http: Client::builder(TokioExecutor::new()).build_http(),
        }
    }

    /// Status and body of one request to one of the processes.
    async fn send(&self, process: u64, request: Request<Bytes>) -> (StatusCode, String) {
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
    async fn send_at_once(
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

    async fn balance(&self, order: u64) -> u64 {
        let request = Request::get(format!("/orders/{order}")).body(Bytes::new()).unwrap();
        let (status, body) = self.send(order, request).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let cents = body.strip_prefix(&format!("{{\"order\":\"{order}\",\"cents\":")).unwrap();
        cents.strip_suffix('}').unwrap().parse().unwrap()
    }

    /// The thousand payments, spread over both processes and all orders, and what became of them:
    /// the balances, and what they should be.
    async fn take_payments(&self) -> Vec<(u64, u64)> {
        let payments = || (0..PAYMENTS).map(|n| (n, n % ORDERS, n + 1));
        // Turn and turn about within each order.
        let requests = payments().map(|(n, order, cents)| (n / ORDERS, money("pay", order, cents)));
        assert_eq!(self.send_at_once(requests).await, [(200, 1000)].into());
        let mut balances = Vec::new();
        for this in 0..ORDERS {
            let paid = payments().filter(|(_, order, _)| *order == this);
            balances.push((self.balance(this).await, paid.map(|(.., cents)| cents).sum()));
        }
        balances
    }
}

fn money(what: &str, order: u64, cents: u64) -> Request<Bytes> {
    let request = Request::post(format!("/orders/{order}/{what}"));
    let request = request.header("content-type", "application/json");
    request.body(format!("{{\"cents\":{cents}}}").into()).unwrap()
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_payment_is_lost() {
    let mut shop = Shop::open("on").await;
    for (order, (balance, paid)) in shop.take_payments().await.into_iter().enumerate() {
        assert_eq!(balance, paid, "order {order}");
    }
    // Asked to stop, the processes leave nothing locked.
    for process in &mut shop.processes {
        let id = Pid::from_raw(process.id().try_into().unwrap()).unwrap();
        kill_process(id, Signal::TERM).unwrap();
        assert!(process.wait(BOUND).await.success());
    }
    let left = shop.redis.client().keys().await;
    let locks: Vec<_> = left.iter().filter(|key| key.starts_with("shop:order:")).collect();
    assert!(locks.is_empty(), "{locks:?}");
}

/// The test above has teeth: the same run without locks loses payments.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_locks_payments_are_lost() {
    let shop = Shop::open("off").await;
    let balances = shop.take_payments().await;
    assert!(balances.iter().any(|(balance, paid)| balance < paid), "{balances:?}");
}

/// The layer around the one route and the attribute on the other method lock the same thing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refunds_and_payments_exclude_each_other() {
    let shop = Shop::open("on").await;
    let funds = (0..4).map(|order| (order, money("pay", order, 1000)));
    assert_eq!(shop.send_at_once(funds).await, [(200, 4)].into());
    // Of each order 25 times 30 are paid back and 25 times 10 are paid, in both processes.
    let requests = (0..200).map(|n| {
        let (order, process) = (n % 4, n / 8);
        let (what, cents) = if n / 4 % 2 == 0 { ("refund", 30) } else { ("pay", 10) };
        (process, money(what, order, cents))
    });
    assert_eq!(shop.send_at_once(requests).await, [(200, 200)].into());
    for order in 0..4 {
        assert_eq!(shop.balance(order).await, 1000 - 25 * 30 + 25 * 10, "order {order}");
    }
    let (status, body) = shop.send(1, money("refund", 0, 501)).await;
    assert_eq!((status.as_u16(), body.as_str()), (422, "only 500 cents have been paid\n"));
}
