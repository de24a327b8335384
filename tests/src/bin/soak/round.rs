//! One round: a server, parties that use its locks, and faults until the time is over.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lock_tests::crew::{FAIR, Habits, KEPT, PAIR, PARTS};
use lock_tests::history::{History, Recorder, Report, Rules};
use lock_tests::{Proxy, RawClient, RedisServer, Sampler, Worker, left_at_end};
use tokio::time::{Instant, sleep};

use crate::nemesis::{Nemesis, Plan};

/// The lease of all holds.
pub(crate) const LEASE: Duration = Duration::from_secs(1);

/// How long clients wait for an answer.
const ANSWER: Duration = Duration::from_millis(500);

/// How many processes use the locks.
const PARTIES: usize = 3;

/// More than a process takes for its start, and for the end of its tasks, on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// How long after a fault each process has to have every lock again: a waiter that was killed at the head of a fair mutex's
/// queue keeps its place for its waiter lease of two leases, behind a holder that was killed, too.
const RECOVERY: Duration = Duration::from_secs(5);

/// A process and the proxy before it.
pub(crate) struct Party {
    pub(crate) process: Worker,
    pub(crate) proxy: Proxy,
    args: [String; 5],
}

impl Party {
    async fn start(
        server: &RedisServer,
        values: &str,
        history: &Path,
        seed: u64,
        pause: Duration,
    ) -> Self {
        let proxy = Proxy::start(server.port()).await;
        let config = format!("[lock]\nurl = {:?}", proxy.url());
        let (cancel, linger) = (true, true);
        let habits = Habits { lease: LEASE, pause, cancel, linger, seed, ..Habits::default() };
        let habits = serde_json::to_string(&habits).expect("habits can be written as JSON");
        let (history, answer) = (history.display().to_string(), ANSWER.as_millis().to_string());
        let args = [config, values.to_owned(), history, answer, habits];
        Self { process: worker(&args).await, proxy, args }
    }

    /// Starts another process in place of one that was killed.
    pub(crate) async fn restart(&mut self) {
        self.process = worker(&self.args).await;
    }
}

async fn worker(args: &[String]) -> Worker {
    // Beside this program.
    let exe: PathBuf = std::env::current_exe().expect("a program has a place");
    let args: Vec<&str> = ["crew"].into_iter().chain(args.iter().map(String::as_str)).collect();
    let mut worker = Worker::spawn(exe.with_file_name("worker"), &args, &[]);
    assert_eq!(worker.next_line(SOON).await, "ready");
    worker
}

/// Plays a round and judges it.
pub(crate) async fn run(seed: u64, time: Duration, pause: Duration) -> Report {
    let server = RedisServer::builder().arg("--enable-debug-command", "yes").start().await;
    let values = RedisServer::start().await;
    let dir = tempfile::tempdir().expect("the directory for temporary files is writable");
    let recorder = Recorder::create(dir.path()).expect("a new directory can be written to");
    let recorder = Arc::new(recorder);
    let mut parties = Vec::new();
    for number in 0..PARTIES as u64 {
        let seed = seed.wrapping_mul(PARTIES as u64).wrapping_add(number);
        parties.push(Party::start(&server, &values.url(), dir.path(), seed, pause).await);
    }
    let looks = RawClient::new(&server.url());
    let sampler = Sampler::start(looks, Arc::clone(&recorder), PAIR, &PARTS, FAIR, KEPT);
    let side = RawClient::new(&server.url());
    let nemesis = Nemesis { server: &server, side: &side, recorder: &recorder };
    let (mut choices, start) = (fastrand::Rng::with_seed(seed), Instant::now());
    while start.elapsed() < time {
        let plan = Plan::next(&mut choices, parties.len());
        let Plan { name, party, lasts, pause, .. } = plan;
        let at = start.elapsed().as_millis();
        println!("{seed} {at:>6}ms: {name} (party {party}, {lasts:.0?})");
        nemesis.inject(plan, &mut parties[party]).await;
        sleep(pause).await;
    }
    // So that the last fault has its recovery, too.
    for party in &mut parties {
        party.process.send("work 1");
    }
    for party in &mut parties {
        assert_eq!(party.process.next_line(SOON).await, "worked");
        party.process.send("stop");
    }
    for party in &mut parties {
        assert_eq!(party.process.next_line(SOON).await, "stopped");
        let status = party.process.wait(SOON).await;
        assert!(status.success(), "{seed}: a process ended with {status}");
    }
    drop(sampler);
    // A proxy that has swallowed the end of a connection keeps it open to the server.
    drop(parties);
    // A process that was killed leaves its holds for their lease, and its places for twice as long.
    let left = left_at_end(&server, 3 * LEASE, KEPT).await;
    assert!(left.is_empty(), "{seed}: left on the server: {left:?}");
    let rules = Rules::under_faults(LEASE, ANSWER, RECOVERY);
    let history = History::load(dir.path()).expect("the histories of this round can be read");
    let report = history.check(&rules);
    if !report.violations.is_empty() {
        println!("{seed}: the histories stay in {}", dir.keep().display());
    }
    report
}
