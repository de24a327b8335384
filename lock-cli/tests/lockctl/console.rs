//! `lockctl console`: the addresses it listens on, and the hosts and tokens it accepts.

use lock_runtime::LockClient;
use lock_tests::redis_server::Sentinels;
use lock_tests::{RedisCluster, RedisServer};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Child;
use tokio::time::timeout;

use crate::world::{SOON, World, begin, lockctl};

/// Waits until it says its address, and returns that.
async fn address(console: &mut Child) -> String {
    let mut lines = BufReader::new(console.stdout.take().unwrap()).lines();
    let line = timeout(SOON, lines.next_line()).await.expect("no address").unwrap().unwrap();
    let url = line.strip_prefix("the console is at http://").expect("the address");
    url.trim_end_matches('/').to_owned()
}

/// The status and the body that a request for a path gets.
async fn get(address: &str, path: &str, headers: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\n{headers}connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(SOON, stream.read_to_string(&mut answer)).await.expect("no end").unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

const ANY_PORT: [&str; 3] = ["console", "--listen", "127.0.0.1:0"];

/// A site whose name has been given this address is not let in; this machine's own names are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_name_of_this_address_is_refused() {
    let world = World::start().await;
    let _held = world.billing.mutex("order:1").lock().await.unwrap();
    let mut console = world.begin(&[&ANY_PORT[..], &["--host", "locks.test"]].concat());
    let address = address(&mut console).await;
    let port = address.rsplit(':').next().unwrap();
    for (host, status) in [
        (&*address, 200),
        (&format!("localhost:{port}"), 200),
        (&format!("LOCALHOST.:{port}"), 200),
        (&format!("[::1]:{port}"), 200),
        ("locks.test", 200),
        (&format!("evil.test:{port}"), 403),
        ("127.0.0.1.evil.test", 403),
        ("", 403),
    ] {
        for path in ["/", "/api/session", "/api/survey"] {
            let (got, body) = get(&address, path, &format!("host: {host}\r\n")).await;
            assert_eq!(got, status, "{host:?} {path}: {body}");
            assert!(status == 200 || body.contains("does not answer for this host"), "{body}");
        }
    }
    let (_, body) = get(&address, "/api/survey", "host: localhost\r\n").await;
    assert!(body.contains("order:1"), "{body}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_machines_need_a_token() {
    let world = World::start().await;
    for token in [&[][..], &["--token", ""]] {
        let args = [&["console", "--listen", "0.0.0.0:0"], token].concat();
        world.run(&args).await.failed(2, "give a --token");
    }
    let mut console = world.begin(&["console", "--listen", "0.0.0.0:0", "--token", "sesame"]);
    let address = address(&mut console).await.replace("0.0.0.0", "127.0.0.1");
    let get = async |headers: &str| get(&address, "/api/session", headers).await.0;
    assert_eq!(get("host: any\r\n").await, 401);
    assert_eq!(get("host: any\r\nauthorization: Bearer sesame\r\n").await, 200);

    let taken = world.run(&["console", "--listen", &address]).await;
    taken.failed(2, "cannot listen on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_clusters_have_a_console() {
    let master = RedisServer::start().await;
    let sentinels = Sentinels::builder("locks").start(&master, 0).await;
    let urls = sentinels.urls();
    let client = LockClient::builder().connect_sentinel("locks", &urls).await.unwrap();
    let _held = client.mutex("order:1").lock().await.unwrap();
    let cluster = RedisCluster::start().await;
    let node = cluster.node(0).url();
    let client = LockClient::builder().connect_cluster([&node]).await.unwrap();
    let _held_too = client.mutex("order:1").lock().await.unwrap();
    for store in [&["--sentinel", "locks", "--node", &urls[0]][..], &["--cluster", &node]] {
        let mut console = begin(&[store, &ANY_PORT[..]].concat());
        let address = address(&mut console).await;
        let (status, body) = get(&address, "/api/survey", "host: localhost\r\n").await;
        assert!(status == 200 && body.contains("order:1"), "{store:?}: {body}");
    }
    let nowhere = [&["--url", "redis://127.0.0.1:1"], &ANY_PORT[..]].concat();
    lockctl(&nowhere).await.failed(3, "127.0.0.1:1");
}
