//! What becomes of locks that are let go as the last thing in `main` (S-20).

use lock_tests::history::Rules;

use crate::prelude::*;

/// How long a worker may take to start and to answer, on a busy machine.
const ANSWER: Duration = secs(20);

const EVERYTHING: [&str; 11] = [
    "mutex",
    "fair",
    "read",
    "write",
    "semaphore",
    "multi",
    "joint",
    "quorum",
    "attribute",
    "layer",
    "three",
];

/// Has a worker on each runtime hold each of these, let go of it, and end that way. The server answers no release, unless it ends with
/// a shutdown that has the time. `check` gets what was held, and the log. Nothing was lost.
async fn each_ends(way: &str, all: &[&str], check: impl AsyncFn(&RedisServer, &str, &str)) {
    let (server, history) = (RedisServer::start().await, tempfile::tempdir().unwrap());
    let runtimes = ["multi", "current"].iter();
    for (runtime, what) in runtimes.flat_map(|runtime| all.iter().map(move |it| (*runtime, *it))) {
        let args = ["end", &server.url(), history.path().to_str().unwrap(), runtime, what, way];
        let mut worker = Worker::spawn(env!("CARGO_BIN_EXE_worker"), &args, &[]);
        while worker.next_line(ANSWER).await != "held" {}
        if way != "shutdown" {
            server.pause();
        }
        worker.send("end");
        let status = worker.wait(ANSWER).await;
        server.resume();
        let mut log = format!("{what} on {runtime}\n");
        while let Some(line) = worker.try_next_line(ANSWER).await {
            log.push_str(&line);
            log.push('\n');
        }
        assert!(status.success(), "{status}: {log}");
        check(&server, what, &log).await;
        server.client().cmd(&["FLUSHALL"]).await;
    }
    let report = History::load(history.path()).unwrap().check(&Rules::default());
    report.assert_clean();
    let locks: usize = all.iter().map(|what| if *what == "three" { 3 } else { 1 }).sum();
    assert_eq!((report.claims, report.losses), (2 * locks, 0), "{report}");
}

/// What the log says of releases that were pending when the runtime ended, line by line.
fn pending(log: &str) -> Vec<usize> {
    let said = log.lines().filter(|line| line.contains("LockClient::shutdown"));
    let number = |line: &str| line.split_once("pending=")?.1.split(' ').next()?.parse().ok();
    said.filter_map(number).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_releases_what_was_dropped_just_before() {
    each_ends("shutdown", &EVERYTHING, async |server, what, log| {
        let mut left = server.client().keys().await;
        left.retain(|key| !key.starts_with("redisson_lock_token:"));
        // A semaphore keeps the number of free permits.
        let expected: &[&str] = if what == "semaphore" { &["k"] } else { &[] };
        assert_eq!(left, expected, "{log}");
        assert!(log.contains("still_held: 0, not_given_back: 0") && !log.contains("WARN"), "{log}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_that_ends_says_what_was_pending() {
    each_ends("plain", &EVERYTHING, async |_, what, log| {
        let holds = match what {
            "three" => 3,
            // One for each of its locks.
            "joint" => 2,
            _ => 1,
        };
        assert_eq!(pending(log), [holds], "{log}");
        assert!(log.contains("WARN"), "{log}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guards_that_go_with_the_runtime_or_after_it_are_counted() {
    for way in ["tasks", "outside"] {
        each_ends(way, &["three"], async |_, _, log| {
            let mut said = pending(log);
            // Threads that end side by side may write their lines in any order.
            said.sort_unstable();
            // More lines only as the number doubles.
            let doubles = said.windows(2).all(|lines| lines[1] >= 2 * lines[0]);
            assert!(doubles && matches!(said.last(), Some(2 | 3)), "{way}: {said:?} {log}");
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_that_was_too_short_says_so() {
    each_ends("short", &["three"], async |_, _, log| {
        let said = log.lines().find(|line| line.contains("not_given_back=3"));
        assert!(said.is_some_and(|line| line.contains("WARN")), "{log}");
    })
    .await;
}

/// Nothing that the server did not answer is lost for a client that lives on.
#[test]
fn the_next_runtime_releases_what_the_last_one_did_not() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let (server, client) = first.block_on(world());
    let guard = first.block_on(client.mutex("k").lock()).unwrap();
    server.pause();
    first.block_on(async { drop(guard) });
    drop(first);
    server.resume();
    second.block_on(async {
        client.mutex("other").lock().await.unwrap().release().await.unwrap();
        soon!("it is free", !server.client().exists("k").await);
    });
}
