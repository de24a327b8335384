//! A thousand requests for one order, at two processes: their bound, and what they leave in memory.
//!
//! The processes are this test binary, told to be a server.

use std::time::Duration;

use axum::routing::{get, post};
use axum::{Router, http::StatusCode};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use lock_runtime::LockClient;

use lock_tests::{RedisServer, Worker, eventually};
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
        let layer = LockLayer::http().key("narrow:{path.id}").client(locks);
        let narrow = layer.max_waiters(10).build().unwrap();
        let app = Router::new()
            .route("/narrow/{id}", post(async || ()).route_layer(narrow))
            .route("/memory", get(async || live_bytes().to_string()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("port {}", listener.local_addr().unwrap().port());
        axum::serve(listener, app).await.unwrap();
    });
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
fn send(servers: &[Server; 2], n: usize) -> tokio::task::JoinHandle<StatusCode> {
    let mut client = servers[n % 2].clients[n / 2 % 5].clone();
    let request = Request::post("http://a/narrow/42").body(Empty::new()).unwrap();
    tokio::spawn(async move { client.send_request(request).await.unwrap().status() })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_requests_are_bounded_and_leave_no_memory() {
    // Its servers count in processes of their own, but the clients allocate here.
    let _alone = alone().await;
    let server = RedisServer::start().await;
    let servers = [Server::start(&server.url()).await, Server::start(&server.url()).await];
    let locks = LockClient::connect(&server.url()).await.unwrap();
    // S-18: what does not fit in line is sent away at once, and the memory of a crowd goes with it.
    let mut live = [Vec::new(), Vec::new()];
    for _ in 0..16 {
        let narrow = locks.mutex("narrow:42").lock().await.unwrap();
        let requests: Vec<_> = (0..1000).map(|n| send(&servers, n)).collect();
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
