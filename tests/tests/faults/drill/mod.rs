//! Tasks of two clients and of a process use locks of every kind, a fault is injected, and their history is judged.
//!
//! The fault meets tasks that use everything, and not the one call that it is about: so a fault is found that only another kind of
//! lock notices.

mod idle;
mod kept;
mod process;
mod refusal;
mod worlds;

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::Arc;

use lock_runtime::clock::Clock;
use lock_runtime::policy::LockConfig;
use lock_tests::crew::{Crew, FAIR, Habits, PAIR, PARTS, connect_to_values};
use lock_tests::history::{History, Report, Rules};
use lock_tests::redis_server::RedisServerBuilder;
use lock_tests::{Sampler, left_at_end};
use tempfile::TempDir;

pub(crate) use self::idle::Idle;
pub(crate) use self::kept::Kept;
pub(crate) use self::process::ProcessStart;
pub(crate) use self::refusal::{refusal, refused};
pub(crate) use self::worlds::{Alone, Failover, Masters, Slots, World};
use crate::prelude::*;

/// A row of the fault table: what the test is called, where the drill takes place, what the fault may do, within what time
/// every party has every lock again, how the fault is injected, and what is looked at after it. With an action only, a drill without a
/// fault: the parties lose nothing by what it does.
macro_rules! drill {
    ($name:ident, $start:expr, $may:expr, $recovery:expr, $inject:expr) => {
        drill!($name, $start, $may, $recovery, $inject, async |_, ()| ());
    };
    ($name:ident, $start:expr, $may:expr, $recovery:expr, $inject:expr, $after:expr) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let mut drill = $start.await;
            let made = drill.fault($may, $inject).await;
            drill.look($after, made).await;
            drill.end($recovery).await;
        }
    };
    ($name:ident, $act:expr) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let mut drill = Drill::start().await;
            drill.act($act).await;
            drill.all_work().await;
            drill.end(Duration::ZERO).await;
        }
    };
}
pub(crate) use drill;

/// The lease of all holds in a drill: short, so that a fault outlasts it.
pub(crate) const LEASE: Duration = secs(1);

/// How many times longer the leases and waits of some tasks are while no fault is injected: a release or a notice that is
/// missed then costs seconds.
const PATIENCE: u32 = 10;

/// How long the clients of a drill wait for an answer. Tasks wait twice as long for a lock.
pub(crate) const ANSWER: Duration = ms(500);

/// How long the place of a waiter of a fair lock stays that does not refresh it; the process has the same.
pub(crate) const WAITER_LEASE: Duration = secs(2);

/// How often each lock is acquired before a fault and after it.
const TIMES: u64 = 3;

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

/// Two clients and a process; all use the same locks. Fields of the servers that they use are those of the [`World`].
pub(crate) struct Drill<W = Alone> {
    /// A client without a proxy.
    pub(crate) near: Party,
    /// A client behind the proxy, if the world has one.
    pub(crate) far: Party,
    /// A process without a proxy.
    pub(crate) process: Worker,
    start: ProcessStart,
    recorder: Recorder,
    samplers: Vec<Sampler>,
    world: W,
    /// The server of the values that the locks protect, which no fault befalls.
    _values: RedisServer,
    history: TempDir,
}

impl Drill {
    /// On a server with the harness's own settings.
    pub(crate) async fn start() -> Self {
        Self::on(RedisServer::builder()).await
    }

    /// On this server.
    pub(crate) async fn on(server: RedisServerBuilder) -> Self {
        Self::with(server, "127.0.0.1", Vec::new()).await
    }

    /// On this server, for a drill that injects no fault, with a process that has these variables in its environment. A fault
    /// would leave its waiters waiting for the long leases of some holders.
    pub(crate) async fn without_fault(
        server: RedisServerBuilder,
        envs: Vec<(String, String)>,
    ) -> Self {
        let world = Alone::start(server).await;
        let (habits, config) = (Habits { patience: PATIENCE, ..Habits::default() }, world.near());
        Self::start_all(world, habits, config, envs).await
    }

    /// On this server, with a process that knows it by this host name and has these variables in its environment.
    pub(crate) async fn with(
        server: RedisServerBuilder,
        host: &str,
        envs: Vec<(String, String)>,
    ) -> Self {
        let world = Alone::start(server).await;
        let config = world.near().replace("127.0.0.1", host);
        Self::start_all(world, Habits::default(), config, envs).await
    }
}

impl Drill<Failover> {
    /// On a master with a replica, which sentinels watch.
    pub(crate) async fn with_sentinels() -> Self {
        let world = Failover::start(RedisServer::builder(), 1).await;
        Self::among(world, Habits::default()).await
    }
}

impl Drill<Slots> {
    /// In a cluster of three masters.
    pub(crate) async fn in_a_cluster() -> Self {
        Self::among(Slots::new(RedisCluster::start().await), Habits::default()).await
    }
}

impl Drill<Masters> {
    /// On so many servers of a quorum, which keeps mutexes only.
    pub(crate) async fn of_a_quorum(count: usize) -> Self {
        let habits = Habits { mutexes_only: true, ..Habits::default() };
        Self::among(Masters::start(count, "none").await, habits).await
    }
}

impl<W: World> Drill<W> {
    /// On these servers, by tasks of these habits with the [`LEASE`] of all drills.
    pub(crate) async fn among(world: W, habits: Habits) -> Self {
        let config = world.near();
        Self::start_all(world, habits, config, Vec::new()).await
    }

    /// Returns when every party has acquired every lock a few times.
    async fn start_all(
        world: W,
        habits: Habits,
        process_config: String,
        envs: Vec<(String, String)>,
    ) -> Self {
        let values = RedisServer::start().await;
        let history = tempfile::tempdir().unwrap();
        let dir = history.path();
        let habits = Habits { lease: LEASE, ..habits };
        let sampled = Arc::new(Recorder::create_as(dir, SERVER).unwrap());
        let servers = world.servers();
        let raws = servers.iter().map(|server| RawClient::new(&server.url()));
        let samplers = raws
            .map(|raw| Sampler::start(raw, Arc::clone(&sampled), PAIR, &PARTS, FAIR, KEPT))
            .collect();
        let near = Party::start(NEAR, &world.near(), &values, dir, habits).await;
        let far = Party::start(FAR, &world.far(), &values, dir, habits).await;
        let start = ProcessStart::new(process_config, &values.url(), dir, habits, envs);
        let process = start.start().await;
        let recorder = Recorder::create(dir).unwrap();
        let mut drill =
            Self { near, far, process, start, recorder, samplers, world, _values: values, history };
        drill.all_work().await;
        drill
    }

    /// The configuration of the client behind the proxy.
    pub(crate) fn far_config(&self) -> String {
        self.world.far()
    }

    /// Writes down what another party does, with this number in the history.
    pub(crate) fn record_as(&self, process: u32) -> Recorder {
        Recorder::create_as(self.history.path(), process).unwrap()
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
    /// a few times after it. It is the process that a fault [stops](May::Stop).
    pub(crate) async fn fault<T>(
        &mut self,
        may: May,
        inject: impl AsyncFnOnce(&mut Self) -> T,
    ) -> T {
        match may {
            May::Stop => self.recorder.record_stop(FAULT, self.process.id()),
            _ => self.recorder.record_fault(FAULT, may),
        }
        let made = inject(self).await;
        self.recorder.record_end_of_fault(FAULT);
        self.all_work().await;
        made
    }

    /// Looks at what a fault has made.
    pub(crate) async fn look<T>(&mut self, look: impl AsyncFnOnce(&mut Self, T), made: T) {
        look(self, made).await;
    }

    /// Has the program do something that is no fault of the store or the network.
    pub(crate) async fn act(&mut self, act: impl AsyncFnOnce(&mut Self)) {
        act(self).await;
    }

    /// Has the store lose what it has confirmed, during a fault: all of it happens while `lose` runs.
    pub(crate) async fn loses<T>(&self, lose: impl Future<Output = T>) -> T {
        self.records_loss(May::Forget, lose).await
    }

    /// The same for one of several servers, which between them still know who holds a lock.
    pub(crate) async fn loses_in_part<T>(&self, lose: impl Future<Output = T>) -> T {
        self.records_loss(May::ForgetInPart, lose).await
    }

    async fn records_loss<T>(&self, may: May, lose: impl Future<Output = T>) -> T {
        self.recorder.record_fault(LOSS, may);
        let made = lose.await;
        self.recorder.record_end_of_fault(LOSS);
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
        let looks: Vec<_> = self.samplers.iter().map(Sampler::looks).collect();
        assert!(looks.iter().any(|looks| *looks > 0), "no server was looked at");
        drop(self.samplers);
        self.world.close();
        let mut left = Vec::new();
        for server in self.world.servers() {
            left.extend(left_at_end(server, AT_ONCE, KEPT).await);
        }
        let rules = Rules::under_faults(LEASE, ANSWER, recovery);
        let report = History::load(self.history.path()).unwrap().check(&rules);
        eprintln!("{report}");
        report.assert_clean();
        // After the history, which says more about a bug that both show.
        assert!(left.is_empty(), "left on the server: {left:?}");
        assert!(report.updates > 0, "no update: {report}");
        report
    }
}

impl<W> Deref for Drill<W> {
    type Target = W;

    fn deref(&self) -> &W {
        &self.world
    }
}

impl<W> DerefMut for Drill<W> {
    fn deref_mut(&mut self) -> &mut W {
        &mut self.world
    }
}

impl Party {
    /// With that number in the history.
    async fn start(
        number: u32,
        config: &str,
        values: &RedisServer,
        history: &Path,
        habits: Habits,
    ) -> Self {
        let (config, clock) = (LockConfig::from_toml(config).unwrap(), Clock::boot_time());
        let builder = LockClient::builder().command_timeout(ANSWER).waiter_lease(WAITER_LEASE);
        let client = builder.clock(clock.clone()).connect_config(config).await.unwrap();
        let recorder = Arc::new(Recorder::create_as(history, number).unwrap());
        let values = connect_to_values(&values.url()).await.unwrap();
        let mut crew = Crew::new(&recorder, values, Habits { seed: number.into(), ..habits });
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

    /// How many locks its tasks have acquired.
    pub(crate) fn grants(&self) -> u64 {
        self.crew.grants()
    }

    async fn stop(self) {
        self.crew.stop(SOON).await;
        let shutdown = self.client.shutdown(SOON).await;
        assert!(shutdown.is_clean(), "{shutdown:?}");
    }
}

/// Less than what is left of any lease: each hold was renewed when a third of it had passed.
const AT_ONCE: Duration = LEASE.checked_div(2).unwrap();

/// What a history calls the fault of a drill, which has one.
const FAULT: &str = "the fault";

/// What it calls the moment in which the store loses data, which may be a short part of the fault.
const LOSS: &str = "the loss";

/// Numbers of processes in the history, below any that a system gives to one: the sampler's, and the clients'.
const SERVER: u32 = 1;
const NEAR: u32 = 2;
pub(crate) const FAR: u32 = 3;
