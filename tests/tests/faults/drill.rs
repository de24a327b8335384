//! Tasks of two clients and of a process use locks of every kind, a fault is injected, and their history is judged.

use std::path::Path;
use std::sync::Arc;

use lock_runtime::clock::Clock;
use lock_tests::crew::{self, Crew, Habits, PAIR, PARTS};
use lock_tests::history::{History, Recorder, Report, Rules};
use lock_tests::redis_server::RedisServerBuilder;
use lock_tests::{RawClient, Sampler};
use tempfile::TempDir;

use crate::prelude::*;

/// The lease of all holds in a drill: short, so that a fault outlasts it.
pub(crate) const LEASE: Duration = secs(1);

/// How long the clients of a drill wait for an answer. Tasks wait twice as long for a lock.
pub(crate) const ANSWER: Duration = ms(500);

/// How long the place of a waiter of a fair lock stays that does not refresh it; the process has the same.
const WAITER_LEASE: Duration = secs(2);

/// How often each lock is acquired before a fault and after it.
const TIMES: u64 = 3;

/// How long a lock may be free while a task waits for it and no fault is to blame, on a busy machine. Less than the
/// poll cap, so a notice that is missed shows.
const FREE: Duration = secs(3);

/// What semaphores leave behind on purpose, those of the crews and of [`hold_each`](crate::each::hold_each): the limit and
/// the free permits. And what [`evict`](crate::each::evict) fills the server with.
const KEPT: &[&str] = &["permits", "{permits}:limit", "own:Permits", "{own:Permits}:limit", "fill"];

/// A client and its tasks.
pub(crate) struct Party {
    pub(crate) client: LockClient,
    /// The client's.
    pub(crate) clock: Clock,
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
    start: ProcessStart,
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
        Self::with(server, "127.0.0.1", Vec::new()).await
    }

    /// On this server, with a process that knows it by this host name and has these variables in its environment.
    pub(crate) async fn with(
        server: RedisServerBuilder,
        host: &str,
        envs: Vec<(String, String)>,
    ) -> Self {
        let (server, values) = (server.start().await, RedisServer::start().await);
        let proxy = Proxy::start(server.port()).await;
        let history = tempfile::tempdir().unwrap();
        let dir = history.path();
        let sampled = Arc::new(Recorder::create_as(dir, SERVER).unwrap());
        let raw = RawClient::new(&server.url());
        let sampler = Sampler::start(raw, sampled, PAIR, &PARTS, KEPT);
        let near = Party::start(NEAR, &server.url(), &values, dir).await;
        let far = Party::start(FAR, &proxy.url(), &values, dir).await;
        let url = format!("redis://{host}:{}", server.port());
        let start = ProcessStart::new(url, &values.url(), dir, envs);
        let process = start.start().await;
        let recorder = Recorder::create(dir).unwrap();
        let mut drill = Self {
            server,
            proxy,
            near,
            far,
            process,
            start,
            recorder,
            sampler,
            _values: values,
            history,
        };
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

    /// How its processes are started.
    pub(crate) fn process_start(&self) -> &ProcessStart {
        &self.start
    }

    /// Kills the process.
    pub(crate) fn kill_process(&mut self) {
        self.process.sigkill();
        self.recorder.record_kill(self.process.id());
    }

    /// Starts another process in place of the one that was killed.
    pub(crate) async fn start_process(&mut self) {
        self.process = self.start.start().await;
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
        let clock = Clock::boot_time();
        let client = LockClient::builder().command_timeout(ANSWER).waiter_lease(WAITER_LEASE);
        let client = client.clock(clock.clone()).connect(server).await.unwrap();
        let recorder = Arc::new(Recorder::create_as(history, number).unwrap());
        let values = crew::values(&values.url()).await;
        let habits = Habits { lease: LEASE, seed: number.into(), ..Habits::default() };
        let mut crew = Crew::new(&recorder, values, habits);
        crew.add(&client);
        Self { client, clock, crew }
    }

    /// Waits until its tasks have acquired every lock a few times more.
    pub(crate) async fn works(&self) {
        self.work(TIMES).await;
    }

    /// Waits until its tasks have acquired every lock so many times more.
    pub(crate) async fn work(&self, times: u64) {
        self.crew.work(times, SOON).await;
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

/// What a process of a drill is started with.
pub(crate) struct ProcessStart {
    args: Vec<String>,
    envs: Vec<(String, String)>,
}

impl ProcessStart {
    fn new(url: String, values: &str, history: &Path, envs: Vec<(String, String)>) -> Self {
        let [lease, answer] = [LEASE, ANSWER].map(|it| it.as_millis().to_string());
        let history = history.to_str().unwrap().to_owned();
        Self { args: vec![url, values.to_owned(), history, lease, answer], envs }
    }

    async fn start(&self) -> Worker {
        let mut process = self.spawn(env!("CARGO_BIN_EXE_crew_worker"), &self.envs);
        assert_eq!(process.next_line(SOON).await, "ready");
        process
    }

    /// Another program with the same arguments.
    pub(crate) fn spawn(&self, exe: &str, envs: &[(String, String)]) -> Worker {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        let envs: Vec<_> = envs.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        Worker::spawn(exe, &args, &envs)
    }
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
