//! Servers: starting, stopping, looking inside.

use super::*;

#[tokio::test]
async fn typed_helpers_show_the_keys() {
    let server = RedisServer::start().await;
    let client = server.client();
    assert_eq!(client.cmd(&["HSET", "h", "a", "1", "b", "2"]).await, redis::Value::Int(2));
    client.cmd(&["SET", "k", "v", "PX", "60000"]).await;
    assert_eq!(client.hgetall("h").await, [("a", "1"), ("b", "2")].map(owned).into());
    assert_eq!(client.hgetall("none").await, [].into());
    assert_eq!(client.keys().await, ["h", "k"]);
    assert_eq!(client.pttl("h").await, Ttl::Forever);
    assert_eq!(client.pttl("none").await, Ttl::Missing);
    let minute = Duration::from_secs(60);
    assert!(matches!(client.pttl("k").await, Ttl::Left(left) if left <= minute));
    assert!(client.exists("k").await && client.del("k").await);
    assert!(!client.exists("k").await && !client.del("k").await);
    let error = client.try_cmd(&["HGET", "h"]).await.unwrap_err();
    assert!(error.to_string().contains("wrong number of arguments"), "{error}");
    assert_eq!(client.get::<String>(&["DEBUG", "SLEEP", "0"]).await, "OK");
}

fn owned((a, b): (&str, &str)) -> (String, String) {
    (a.to_owned(), b.to_owned())
}

#[tokio::test]
async fn a_restarted_server_is_empty_and_at_the_same_port() {
    let server = RedisServer::start().await;
    let (url, mut wire) = (server.url(), Wire::open(server.port()).await);
    assert_eq!(wire.ask("SET k v").await, "+OK");
    server.kill();
    assert_eq!(wire.reply().await.unwrap_or_default(), "");
    assert!(TcpStream::connect(("127.0.0.1", server.port())).await.is_err());
    assert!(server.client().try_cmd(&["PING"]).await.is_err());
    server.restart().await;
    assert_eq!(server.url(), url);
    assert_eq!(Wire::open(server.port()).await.ask("GET k").await, "$-1");
    server.restart().await;
    assert!(server.client().keys().await.is_empty());
}

#[tokio::test]
async fn a_paused_server_keeps_connections_and_says_nothing() {
    let server = RedisServer::start().await;
    let mut wire = Wire::open(server.port()).await;
    assert_eq!(wire.ask("PING").await, "+PONG");
    server.pause();
    wire.send("PING").await;
    assert!(wire.is_silent().await);
    server.resume();
    assert_eq!(wire.reply().await.unwrap(), "+PONG");
    server.pause();
    server.restart().await;
    assert_eq!(Wire::open(server.port()).await.ask("PING").await, "+PONG");
}

#[tokio::test]
async fn a_password_is_asked_for_on_both_kinds_of_address() {
    let password = "p@ss w/örd?";
    let tcp = RedisServer::builder().password(password).start().await;
    let socket = RedisServer::builder().password(password).unix_socket().start().await;
    for server in [tcp, socket] {
        let ping = async |url: String| RawClient::new(&url).try_cmd(&["PING"]).await;
        assert!(ping(server.url()).await.is_ok(), "{}", server.url());
        assert!(ping(server.url_with_password(Some("wrong"))).await.is_err());
        assert!(ping(server.url_with_password(None)).await.is_err());
    }
}

#[tokio::test]
async fn a_server_on_a_socket_has_no_port() {
    let server = RedisServer::builder().unix_socket().start().await;
    assert!(server.url().starts_with("unix:///"), "{}", server.url());
    let port: (String, String) = server.client().get(&["CONFIG", "GET", "port"]).await;
    assert_eq!(port.1, "0");
    let asked = lock_tests::spawn(async move { server.port() }).await;
    assert!(asked.is_err());
}

#[tokio::test]
async fn settings_are_those_given() {
    let server = RedisServer::builder().arg("--maxmemory", "3mb").start().await;
    let (_, bytes): (String, u64) = server.client().get(&["CONFIG", "GET", "maxmemory"]).await;
    assert_eq!(bytes, 3 * 1024 * 1024);
}

#[tokio::test]
#[should_panic(expected = "redis-server ended with")]
async fn a_setting_that_is_none_is_reported() {
    RedisServer::builder().arg("--no-such-setting", "1").start().await;
}

#[tokio::test]
async fn commands_are_counted() {
    let server = RedisServer::start().await;
    let mut wire = Wire::open(server.port()).await;
    wire.ask("PING").await;
    server.reset_stats().await;
    assert_eq!(server.command_calls().await, [].into());
    wire.ask("EVAL \"redis.call('SET','k','v') return 1\" 0").await;
    wire.ask("CLIENT SETNAME someone").await;
    RawClient::new(&server.url()).cmd(&["ECHO", "hi"]).await;
    let calls = server.command_calls().await;
    let expected = [("client|setname", 1), ("echo", 1), ("eval", 1), ("info", 1), ("set", 1)];
    assert_eq!(calls, expected.map(|(name, calls)| (name.to_owned(), calls)).into());
}

#[tokio::test]
async fn messages_are_recorded_and_subscribers_counted() {
    let server = RedisServer::start().await;
    server.wait_for_subscribers("news", 0).await;
    let log = server.subscribe_log("news").await;
    assert_eq!(server.pubsub_numsub("news").await, 1);
    for word in ["a", "b", "c"] {
        server.client().cmd(&["PUBLISH", "news", word]).await;
        server.client().cmd(&["PUBLISH", "olds", word]).await;
    }
    assert_eq!(log.wait_for(3, BOUND).await, ["a", "b", "c"]);
    let too_few = server.wait_for_subscribers("news", 0);
    assert!(timeout(QUIET, too_few).await.is_err(), "there is one still");
    drop(log);
    server.wait_for_subscribers("news", 0).await;
}

#[tokio::test]
async fn clients_are_cut_off_by_class() {
    let server = RedisServer::start().await;
    let (mut normal, mut pubsub) =
        (Wire::open(server.port()).await, Wire::open(server.port()).await);
    assert_eq!(normal.ask("PING").await, "+PONG");
    pubsub.ask("SUBSCRIBE news").await;
    assert_eq!(server.client_kill(ClientType::PubSub).await, 1);
    assert_eq!(normal.ask("PING").await, "+PONG");
    assert_eq!(server.client_kill(ClientType::Normal).await, 1);
    assert_eq!(normal.reply().await.unwrap_or_default(), "");
    server.client().cmd(&["PING"]).await;
}

/// This test binary again, for one test that behaves differently there.
fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]);
    command
}

#[test]
fn a_missing_server_fails_the_test_and_names_the_way_out() {
    let mut command = again("harness::server::settings_are_those_given");
    let output = command.env("REDIS_SERVER", "/no/such/server").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("/no/such/server") && said.contains("cargo xtask test"), "{said}");
}

const ORPHAN: &str = "LOCK_TESTS_ORPHAN_FILE";

/// Does nothing by itself: it is the process to be killed in the test below.
#[tokio::test]
async fn parent_of_orphans() {
    let Some(file) = std::env::var_os(ORPHAN) else { return };
    let server = RedisServer::start().await;
    let dir: (String, String) = server.client().get(&["CONFIG", "GET", "dir"]).await;
    server.pause();
    let report = format!("{} {}\n", server.port(), dir.1);
    std::fs::write(file, report).unwrap();
    std::future::pending().await
}

#[test]
fn a_killed_test_process_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("report");
    let mut command = again("harness::server::parent_of_orphans");
    command.env(ORPHAN, &file).stdout(Stdio::null()).stderr(Stdio::null());
    let mut parent = command.spawn().unwrap();
    let report = || std::fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n'));
    eventually_blocking(BOUND, "the server runs", || report().is_some());
    let report = report().unwrap();
    let [port, redis_dir] = report.split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("{report}")
    };
    parent.kill().unwrap();
    parent.wait().unwrap();

    let address = format!("127.0.0.1:{port}");
    eventually_blocking(BOUND, "the server is gone", || {
        std::net::TcpStream::connect(&address).is_err()
    });
    eventually_blocking(BOUND, "the directory is gone", || {
        !std::path::Path::new(redis_dir).exists()
    });
}
