//! Tasks of two clients and of a process use locks of every kind, a fault is injected, and their history is judged.

use std::path::Path;
use std::sync::Arc;

use lock_tests::crew::{self, Crew, Habits, KEPT, PAIR, PARTS};
use lock_tests::history::{History, Recorder, Report, Rules};
use lock_tests::redis_server::RedisServerBuilder;
use lock_tests::{RawClient, Sampler};
use tempfile::TempDir;

use crate::prelude::*;

/// The lease of all holds in a drill: short, so that a fault outlasts it.
pub(crate) const LEASE: Duration = secs(1);

/// How long the clients of a drill wait for an answer. Tasks wait twice as long for a lock.
pub(crate) const ANSWER: Duration = ms(500);

/// How often each lock is acquired before a fault and after it.
const TIMES: u64 = 3;

/// How long a lock may be free while a task waits for it and no fault is to blame, on a busy machine. Less than the
/// poll cap, so a notice that is missed shows.
const FREE: Duration = secs(3);

/// A client and its tasks.
pub(crate) struct Party {
    pub(crate) client: LockClient,
    crew: Crew,
}

/// A server, a client beside it, a client behind a proxy, and a process; all use the same locks.
pub(crate) struct Drill {
    pub(crate) server: RedisServer,
    /// Before the second client.
    pub(crate) proxy: Proxy,
    /// Beside the server.
    pub(crate) near: Party,
    /// Behind the proxy.
    pub(crate) far: Party,
    /// Beside the server.
    pub(crate) process: Worker,
    recorder: Recorder,
    sampler: Sampler,
    /// The server of the values that the locks protect, which no fault befalls.
    _values: RedisServer,
    history: TempDir,
}

impl Drill {
    /// On a server with the harness's own settings.
    pub(crate) async fn start() -> Self {
        Self::on(RedisServer::builder()).await
    }

    /// On this server. Returns when every party has acquired every lock a few times.
    pub(crate) async fn on(server: RedisServerBuilder) -> Self {
        let (server, values) = (server.start().await, RedisServer::start().await);
        let proxy = Proxy::start(server.port()).await;
        let history = tempfile::tempdir().unwrap();
        let dir = history.path();
        let sampled = Arc::new(Recorder::create_as(dir, SERVER).unwrap());
        let raw = RawClient::new(&server.url());
        let sampler = Sampler::start(raw, sampled, PAIR, &PARTS, KEPT);
        let near = Party::start(NEAR, &server.url(), &values, dir).await;
        let far = Party::start(FAR, &proxy.url(), &values, dir).await;
        let process = process(&server.url(), &values.url(), dir).await;
        let recorder = Recorder::create(dir).unwrap();
        let mut drill =
            Self { server, proxy, near, far, process, recorder, sampler, _values: values, history };
        drill.all_work().await;
        drill
    }

    /// Waits until every party has acquired every lock a few times more.
    pub(crate) async fn all_work(&mut self) {
        self.process.send(&format!("work {TIMES}"));
        self.near.works().await;
        self.far.works().await;
        assert_eq!(self.process.next_line(SOON).await, "worked");
    }

    /// Injects a fault: it lasts as long as `inject` does. Returns what that does when every party has acquired every lock
    /// a few times after it.
    pub(crate) async fn fault<T>(
        &mut self,
        may: May,
        inject: impl AsyncFnOnce(&mut Self) -> T,
    ) -> T {
        self.recorder.record_fault(FAULT, may);
        let made = inject(self).await;
        self.recorder.record_end_of_fault(FAULT);
        self.all_work().await;
        made
    }

    /// Ends all tasks. No rule may have been violated, every party has to have had every lock again within `recovery` of
    /// the fault, and nothing may be left.
    pub(crate) async fn end(mut self, recovery: Duration) -> Report {
        self.process.send("stop");
        self.near.stop().await;
        self.far.stop().await;
        assert_eq!(self.process.next_line(SOON).await, "stopped");
        self.process.wait(SOON).await;
        drop(self.sampler);
        // With connections that it keeps open beside the server after a client has given them up.
        drop(self.proxy);
        nothing_is_left(&self.server).await;
        let aftermath = LEASE + 2 * ANSWER;
        let (free, recovery) = (Some(FREE), Some(recovery));
        let rules = Rules { aftermath, free, recovery, ..Rules::default() };
        let report = History::load(self.history.path()).unwrap().check(&rules);
        eprintln!("{report}");
        report.assert_clean();
        assert!(report.updates > 0, "no update: {report}");
        report
    }
}

impl Party {
    /// With that number in the history.
    async fn start(number: u32, server: &str, values: &RedisServer, history: &Path) -> Self {
        let client = LockClient::builder().command_timeout(ANSWER).connect(server).await.unwrap();
        let recorder = Arc::new(Recorder::create_as(history, number).unwrap());
        let values = crew::values(&values.url()).await;
        let habits = Habits { lease: LEASE, seed: number.into(), ..Habits::default() };
        let mut crew = Crew::new(&recorder, values, habits);
        crew.add(&client);
        Self { client, crew }
    }

    /// Waits until its tasks have acquired every lock a few times more.
    pub(crate) async fn works(&self) {
        self.crew.work(TIMES, SOON).await;
    }

    async fn stop(self) {
        self.crew.stop(SOON).await;
        let shutdown = self.client.shutdown(SOON).await;
        assert!(shutdown.is_clean(), "{shutdown:?}");
    }
}

/// The pause between two looks at what is left.
const PAUSE: Duration = ms(10);

/// What a history calls the fault of a drill, which has one.
const FAULT: &str = "the fault";

/// Numbers of processes in the history, below any that a system gives to one: whoever looks at the server, and the clients.
const SERVER: u32 = 1;
const NEAR: u32 = 2;
const FAR: u32 = 3;

async fn process(server: &str, values: &str, history: &Path) -> Worker {
    let lease = LEASE.as_millis().to_string();
    let answer = ANSWER.as_millis().to_string();
    let args = [server, values, history.to_str().unwrap(), &lease, &answer];
    let mut process = Worker::spawn(env!("CARGO_BIN_EXE_crew_worker"), &args, &[]);
    assert_eq!(process.next_line(SOON).await, "ready");
    process
}

/// Waits until the server has nothing of any lock but its fencing counters, and no subscriber.
async fn nothing_is_left(server: &RedisServer) {
    let raw = server.client();
    let counters = ["redisson_lock_token:", "redisson_unlock_latch:"];
    let is_left = |key: &String| {
        !KEPT.contains(&key.as_str()) && !counters.iter().any(|prefix| key.starts_with(prefix))
    };
    let until = Instant::now() + SOON;
    loop {
        let channels: Vec<String> = raw.get(&["PUBSUB", "CHANNELS"]).await;
        let left: Vec<_> = raw.keys().await.into_iter().filter(is_left).chain(channels).collect();
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "left on the server: {left:?}");
        sleep(PAUSE).await;
    }
}
