//! A thousand requests for one order, at two processes: their order, their bound, and what they cost.
//!
//! The processes are this test binary, told to be a server.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Router, http::StatusCode};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use lock_runtime::{LockClient, LockKind, Wait};

use lock_tests::{RawClient, RedisServer, Worker, eventually};
use lock_tower::LockLayer;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::{alone, live_bytes};

/// Plenty for a busy machine.
const BOUND: Duration = Duration::from_secs(120);

/// Where the server under test finds Redis.
const URL: &str = "TOWER_CROWD_REDIS";

/// Not a test by itself: one of the processes.
#[test]
#[ignore = "a process of the other test"]
fn server_process() {
    let Ok(url) = std::env::var(URL) else { return };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(async {
        let locks = LockClient::connect(&url).await.unwrap();
        let layer = LockLayer::http().key("order:{path.id}").client(locks);
        let fair = layer.clone().kind(LockKind::Fair).wait(Wait::Forever).build().unwrap();
        let narrow = layer.key("narrow:{path.id}").max_waiters(10).build().unwrap();
        let app = Router::new()
            .route("/fair/{id}/{n}", post(add).route_layer(fair))
            .route("/narrow/{id}/{n}", post(add).route_layer(narrow))
            .route("/memory", get(async || live_bytes().to_string()))
            .with_state(RawClient::new(&url));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("port {}", listener.local_addr().unwrap().port());
        axum::serve(listener, app).await.unwrap();
    });
}

/// Adds one in two steps, which only a lock keeps apart, and says who it was.
async fn add(Path((_, n)): Path<(String, String)>, State(redis): State<RawClient>) {
    let seen: Option<u64> = redis.get(&["GET", "sum"]).await;
    redis.cmd(&["RPUSH", "served", &n]).await;
    redis.cmd(&["SET", "sum", &(seen.unwrap_or(0) + 1).to_string()]).await;
}

type Client = SendRequest<Empty<Bytes>>;

/// A process, and connections to it that take a hundred requests each.
struct Server {
    _process: Worker,
    clients: Vec<Client>,
}

impl Server {
    async fn start(url: &str) -> Self {
        let exe = std::env::current_exe().unwrap();
        let args = ["crowd::server_process", "--exact", "--ignored", "--nocapture"];
        let mut process = Worker::spawn(exe, &args, &[(URL, url)]);
        let port: u16 = loop {
            let line = process.next_line(BOUND).await;
            if let Some((_, port)) = line.split_once("port ") {
                break port.trim().parse().unwrap();
            }
        };
        let mut clients = Vec::new();
        for _ in 0..5 {
            let io = TokioIo::new(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
            let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), io);
            let (client, connection) = handshake.await.unwrap();
            tokio::spawn(connection);
            clients.push(client);
        }
        Self { _process: process, clients }
    }

    async fn memory(&self) -> usize {
        let request = Request::get("http://a/memory").body(Empty::new()).unwrap();
        let answer = self.clients[0].clone().send_request(request).await.unwrap();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        std::str::from_utf8(&bytes).unwrap().parse().unwrap()
    }
}

/// Sends the `n`th request, to one process or the other.
fn send(servers: &[Server; 2], path: &str, n: usize) -> tokio::task::JoinHandle<StatusCode> {
    let mut client = servers[n % 2].clients[n / 2 % 5].clone();
    let request = Request::post(format!("http://a/{path}/42/{n}")).body(Empty::new()).unwrap();
    tokio::spawn(async move { client.send_request(request).await.unwrap().status() })
}

/// S-26: all thousand stand in one line, each behind the one that was sent before it to the other
/// process, and are served in that order.
async fn all_waiters_in_turn(servers: &[Server; 2], locks: &LockClient, redis: &RawClient) {
    let fair = locks.fair_mutex("order:42").lock().await.unwrap();
    let mut requests = Vec::new();
    for n in 0..1000 {
        requests.push(send(servers, "fair", n));
        eventually(BOUND, "it has its place", async || {
            redis.get::<usize>(&["LLEN", "redisson_lock_queue:{order:42}"]).await == n + 1
        })
        .await;
    }
    assert!(!requests.iter().any(tokio::task::JoinHandle::is_finished), "all wait at once");
    fair.release().await.unwrap();
    for request in requests {
        assert_eq!(timeout(BOUND, request).await.expect("a hang").unwrap(), StatusCode::OK);
    }
    let served: Vec<usize> = redis.get(&["LRANGE", "served", "0", "-1"]).await;
    assert_eq!(served, (0..1000).collect::<Vec<_>>());
    assert_eq!(redis.get::<usize>(&["GET", "sum"]).await, 1000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_requests_take_turns() {
    // Its servers count in processes of their own, but the clients allocate here.
    let _alone = alone().await;
    let server = RedisServer::start().await;
    let redis = server.client();
    let servers = [Server::start(&server.url()).await, Server::start(&server.url()).await];
    let locks = LockClient::connect(&server.url()).await.unwrap();

    all_waiters_in_turn(&servers, &locks, &redis).await;
    // S-18: what does not fit in line is sent away at once, and the memory of a crowd goes with it.
    let mut live = [Vec::new(), Vec::new()];
    for _ in 0..16 {
        let narrow = locks.mutex("narrow:42").lock().await.unwrap();
        let requests: Vec<_> = (0..1000).map(|n| send(&servers, "narrow", n)).collect();
        eventually(BOUND, "all but those in line are answered", async || {
            requests.iter().filter(|request| request.is_finished()).count() >= 1000 - 2 * 11
        })
        .await;
        narrow.release().await.unwrap();
        let mut statuses = Vec::new();
        for request in requests {
            statuses.push(timeout(BOUND, request).await.expect("a hang").unwrap().as_u16());
        }
        let count = |status| statuses.iter().filter(|it| **it == status).count();
        assert_eq!(count(200) + count(503), 1000);
        assert!((2..=22).contains(&count(200)), "{} were served", count(200));
        for (live, server) in live.iter_mut().zip(&servers) {
            live.push(server.memory().await);
        }
    }
    for live in &live {
        // The buffers of connections grow by a step now and then. What each request leaves grows in every round.
        let mut grown: Vec<_> = live.windows(2).map(|it| it[1].saturating_sub(it[0])).collect();
        grown.sort_unstable();
        assert!(grown[grown.len() / 2] < 25_000, "{live:?}");
    }
}
