//! Servers end with the test.

use super::*;

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
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "harness::server::parent_of_orphans", "--nocapture"]);
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
