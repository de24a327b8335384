//! What becomes of locks that are let go as the last thing in `main` (S-20).

use lock_tests::history::Rules;

use crate::prelude::*;

/// How long a worker may take to start and to answer, on a busy machine.
const ANSWER: Duration = secs(20);

const RUNTIMES: [&str; 2] = ["multi", "current"];

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

/// A server, and the history of the workers that use it.
struct Ending {
    server: RedisServer,
    history: tempfile::TempDir,
}

impl Ending {
    async fn new() -> Self {
        Self { server: RedisServer::start().await, history: tempfile::tempdir().unwrap() }
    }

    /// A worker that holds `what`.
    async fn holding(&self, runtime: &str, what: &str, end: &str) -> Worker {
        let exe = env!("CARGO_BIN_EXE_worker");
        let (url, history) = (self.server.url(), self.history.path().to_str().unwrap());
        let mut worker = Worker::spawn(exe, &["end", &url, history, runtime, what, end], &[]);
        loop {
            if worker.next_line(ANSWER).await == "held" {
                return worker;
            }
        }
    }

    /// The log of a worker that lets go and ends while the server answers no release.
    async fn unanswered(&self, runtime: &str, what: &str, way: &str) -> String {
        let worker = self.holding(runtime, what, way).await;
        self.server.pause();
        let log = end(worker).await;
        self.server.resume();
        self.server.client().cmd(&["FLUSHALL"]).await;
        log
    }

    /// Checks the history, in which so many locks were acquired and dropped.
    fn assert_clean(self, locks: usize) {
        let report = History::load(self.history.path()).unwrap().check(&Rules::default());
        report.assert_clean();
        assert_eq!((report.claims, report.losses), (locks, 0), "{report}");
    }
}

/// Has the worker let go and end; its log.
async fn end(mut worker: Worker) -> String {
    worker.send("end");
    let status = worker.wait(ANSWER).await;
    let mut log = String::new();
    while let Some(line) = worker.try_next_line(ANSWER).await {
        log.push_str(&line);
        log.push('\n');
    }
    assert!(status.success(), "{status}: {log}");
    log
}

async fn leftovers(server: &RedisServer) -> Vec<String> {
    let mut keys = server.client().keys().await;
    keys.retain(|key| !key.starts_with("redisson_lock_token:"));
    keys
}

/// What the log says of releases that were pending when the runtime ended, line by line.
fn pending(log: &str) -> Vec<usize> {
    let said = log.lines().filter(|line| line.contains("LockClient::shutdown"));
    let number = |line: &str| line.split_once("pending=")?.1.split(' ').next()?.parse().ok();
    said.filter_map(number).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_releases_what_was_dropped_just_before() {
    let ending = Ending::new().await;
    for runtime in RUNTIMES {
        for what in EVERYTHING {
            let log = end(ending.holding(runtime, what, "shutdown").await).await;
            let left = leftovers(&ending.server).await;
            // A semaphore keeps the number of free permits.
            let expected: &[&str] = if what == "semaphore" { &["k"] } else { &[] };
            assert_eq!(left, expected, "{what} on {runtime}: {log}");
            ending.server.client().cmd(&["FLUSHALL"]).await;
            assert!(log.contains("still_held: 0, not_given_back: 0"), "{what}: {log}");
            assert!(!log.contains("WARN"), "{what} on {runtime}: {log}");
        }
    }
    // Three of the last, and one of each other.
    ending.assert_clean(RUNTIMES.len() * (EVERYTHING.len() + 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_that_ends_says_what_was_pending() {
    let ending = Ending::new().await;
    for runtime in RUNTIMES {
        for what in EVERYTHING {
            let log = ending.unanswered(runtime, what, "plain").await;
            let expected = if what == "three" { 3 } else { 1 };
            assert_eq!(pending(&log), [expected], "{what} on {runtime}: {log}");
            assert!(log.contains("WARN"), "{what} on {runtime}: {log}");
        }
    }
    // Three of the last, and one of each other.
    ending.assert_clean(RUNTIMES.len() * (EVERYTHING.len() + 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guards_that_go_with_the_runtime_or_after_it_are_counted() {
    let ending = Ending::new().await;
    for runtime in RUNTIMES {
        for way in ["tasks", "outside"] {
            let log = ending.unanswered(runtime, "three", way).await;
            let mut said = pending(&log);
            // Threads that end side by side may write their lines in any order.
            said.sort_unstable();
            // More lines only as the number doubles.
            let doubles = said.windows(2).all(|lines| lines[1] >= 2 * lines[0]);
            let last = said.last().copied();
            assert!(doubles && matches!(last, Some(2 | 3)), "{way} on {runtime}: {said:?} {log}");
        }
    }
    ending.assert_clean(RUNTIMES.len() * 2 * 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_that_was_too_short_says_so() {
    let ending = Ending::new().await;
    for runtime in RUNTIMES {
        let log = ending.unanswered(runtime, "three", "short").await;
        let said = log.lines().find(|line| line.contains("not_given_back=3"));
        assert!(said.is_some_and(|line| line.contains("WARN")), "{runtime}: {log}");
    }
    ending.assert_clean(RUNTIMES.len() * 3);
}

/// Nothing that the server did not answer is lost for a client that lives on.
#[test]
fn the_next_runtime_releases_what_the_last_one_did_not() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let (server, client) = first.block_on(async {
        let (server, client) = world().await;
        (server, client)
    });
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
