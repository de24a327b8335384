//! A Redis server and worker processes that use its locks and write down what they did.

use lock_tests::history::Rules;

use crate::prelude::*;

/// How long a worker may take to start and to answer, on a busy machine.
pub(crate) const ANSWER: Duration = secs(20);

pub(crate) struct Workers {
    pub(crate) server: RedisServer,
    pub(crate) client: LockClient,
    pub(crate) history: tempfile::TempDir,
}

impl Workers {
    pub(crate) async fn new() -> Self {
        let (server, client) = world().await;
        Self { server, client, history: tempfile::tempdir().unwrap() }
    }

    pub(crate) async fn worker(&self) -> Worker {
        self.workers::<1>().await.into_iter().next().unwrap()
    }

    pub(crate) async fn workers<const COUNT: usize>(&self) -> [Worker; COUNT] {
        let (url, dir) = (self.server.url(), self.history.path().to_str().unwrap());
        let exe = env!("CARGO_BIN_EXE_worker");
        let mut workers = [(); COUNT].map(|()| Worker::spawn(exe, &["locks", &url, dir], &[]));
        for worker in &mut workers {
            assert_eq!(worker.next_line(ANSWER).await, "ready");
        }
        workers
    }

    /// What all of them have done so far.
    pub(crate) fn history(&self) -> History {
        History::load(self.history.path()).unwrap()
    }
}

impl Drop for Workers {
    /// What all of them have done is checked in the end.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.history().check(&Rules::default()).assert_clean();
        }
    }
}

/// Sends a command; the answer has to begin with that. Returns the rest of it.
pub(crate) async fn told(worker: &mut Worker, command: &str, answer: &str) -> String {
    worker.send(command);
    let line = worker.next_line(ANSWER).await;
    let rest = line.strip_prefix(answer).unwrap_or_else(|| panic!("{command}: {line}"));
    rest.trim().to_owned()
}

/// The numbers in a worker's next answer, after its first word.
pub(crate) async fn numbers<const COUNT: usize>(worker: &mut Worker) -> [u64; COUNT] {
    let line = worker.next_line(ANSWER).await;
    let numbers = line.split(' ').skip(1).map(|number| number.parse().ok());
    let numbers: Option<Vec<u64>> = numbers.collect();
    numbers.and_then(|numbers| numbers.try_into().ok()).unwrap_or_else(|| panic!("{line}"))
}
