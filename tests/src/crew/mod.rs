//! Tasks that use locks of every kind over and over and record all of it: what faults are injected into.

mod member;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lock_runtime::{LockClient, LockError, LockGuard, LockOptions};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use self::member::Member;
use crate::eventually::eventually;
use crate::history::{Op, Recorder, Share, Stamp};

/// How many permits the semaphore of a crew has.
const LIMIT: u32 = 2;

/// The names of the locks that every crew uses, one for each kind of locking.
pub const LOCKS: [&str; 6] = ["mutex", FAIR, "read-write", "permits", PAIR, CALLED];

/// The name of its fair mutex.
pub const FAIR: &str = "fair";

/// The name under which a crew records its lock of several names.
pub const PAIR: &str = "pair";

/// The names of that lock. Nothing else takes them, so both are held or none.
pub const PARTS: [&str; 2] = ["{pair}one", "{pair}two"];

/// What the locks of a crew leave behind on purpose: the semaphore's limit and its free permits.
pub const KEPT: &[&str] = &["permits", "{permits}:limit"];

/// The name of the lock of annotated functions and locked services.
const CALLED: &str = "called";

/// How long the server of the values may take on a busy machine.
const VALUES_BOUND: Duration = Duration::from_secs(30);

/// Connects to the server of the values that the locks protect.
///
/// # Errors
///
/// When it cannot be reached.
pub async fn connect_to_values(url: &str) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(VALUES_BOUND))
        .set_response_timeout(Some(VALUES_BOUND));
    redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await
}

/// A way to lock: what a task of a crew does over and over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// A mutex.
    Mutex,
    /// A fair mutex.
    Fair,
    /// The read side of a read/write lock.
    Read,
    /// Its write side.
    Write,
    /// A permit of a semaphore that has two.
    Permits,
    /// A lock of two names.
    Pair,
    /// An annotated function, whose lock is a mutex.
    Function,
    /// A service under a layer, whose lock is the same mutex.
    Service,
}

/// The tasks of each client: enough of each for the lock to have waiters.
const JOBS: [Job; 13] = [
    Job::Mutex,
    Job::Mutex,
    Job::Fair,
    Job::Fair,
    Job::Read,
    Job::Read,
    Job::Write,
    Job::Permits,
    Job::Permits,
    Job::Pair,
    Job::Pair,
    Job::Function,
    Job::Service,
];

/// How the tasks of a crew behave.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Habits {
    /// The lease of their holds, which the watchdog renews.
    pub lease: Duration,
    /// How long they wait for a lock before they ask anew.
    pub wait: Duration,
    /// The longest pause of a task after each hold.
    pub pause: Duration,
    /// Whether they drop some acquires and some guards halfway.
    pub cancel: bool,
    /// Whether they hold some locks for longer than a lease.
    pub linger: bool,
    /// Whether they use mutexes only, as clients of a quorum have to.
    pub mutexes_only: bool,
    /// How many times longer the lease and the wait of every other task are.
    pub patience: u32,
    /// How many replicas have to have each hold. Annotated functions follow the client's defaults.
    pub replicas: u32,
    /// What their choices follow from, together with their number.
    pub seed: u64,
}

impl Default for Habits {
    fn default() -> Self {
        let (lease, wait) = (Duration::from_secs(1), Duration::from_secs(2));
        // Long enough for other tests to run beside the crew's.
        let pause = Duration::from_millis(100);
        Self {
            lease,
            wait,
            pause,
            cancel: false,
            linger: false,
            mutexes_only: false,
            patience: 1,
            replicas: 0,
            seed: 1,
        }
    }
}

impl Habits {
    fn includes(&self, job: Job) -> bool {
        !self.mutexes_only || matches!(job, Job::Mutex)
    }
}

/// Tasks that use the same [`LOCKS`], until they are stopped.
pub struct Crew {
    recorder: Arc<Recorder>,
    habits: Habits,
    values: MultiplexedConnection,
    grants: Arc<BTreeMap<&'static str, AtomicU64>>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
    _pulse: JoinSet<()>,
}

impl fmt::Debug for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crew").field("habits", &self.habits).finish_non_exhaustive()
    }
}

impl Crew {
    /// A crew without tasks, that updates values over this connection.
    pub fn new(recorder: &Arc<Recorder>, values: MultiplexedConnection, habits: Habits) -> Self {
        Self {
            _pulse: JoinSet::from_iter([pulse(Arc::clone(recorder))]),
            recorder: Arc::clone(recorder),
            habits,
            values,
            grants: Arc::new(LOCKS.map(|name| (name, AtomicU64::new(0))).into()),
            stop: watch::Sender::new(false),
            tasks: JoinSet::new(),
        }
    }

    /// Starts the tasks of a client.
    pub fn add(&mut self, client: &LockClient) {
        for job in JOBS.into_iter().filter(|job| self.habits.includes(*job)) {
            let number = self.tasks();
            let member = Member {
                client: client.clone(),
                job,
                number,
                habits: self.habits,
                values: self.values.clone(),
                grants: Arc::clone(&self.grants),
                choices: fastrand::Rng::with_seed(self.habits.seed.wrapping_add(number << 32)),
            };
            let (recorder, stopped) = (Arc::clone(&self.recorder), self.stop.subscribe());
            self.tasks.spawn(member.run(recorder, stopped));
        }
    }

    /// How many tasks it has: their numbers are those below.
    pub fn tasks(&self) -> u64 {
        self.tasks.len() as u64
    }

    /// Waits until the tasks have acquired every lock once more, so many times.
    ///
    /// Panics when they have not within `bound`.
    pub async fn work(&self, times: u64, bound: Duration) {
        let count = |name: &str| self.grants[name].load(Ordering::Relaxed);
        let used = JOBS.into_iter().filter(|job| self.habits.includes(*job));
        let before: BTreeMap<_, _> = used.map(|job| (job.uses().0, count(job.uses().0))).collect();
        for (name, before) in before {
            let what = format!("`{name}` is acquired {times} times");
            eventually(bound, &what, async || count(name) >= before + times).await;
        }
    }

    /// How many locks the tasks have acquired.
    pub fn grants(&self) -> u64 {
        self.grants.values().map(|grants| grants.load(Ordering::Relaxed)).sum()
    }

    /// Ends all tasks, after what they have begun.
    ///
    /// Panics when one has not ended within `bound`, or has panicked.
    pub async fn stop(mut self, bound: Duration) {
        self.stop.send_replace(true);
        let ended = async {
            while let Some(ended) = self.tasks.join_next().await {
                ended.expect("a task of a crew has panicked");
            }
        };
        timeout(bound, ended).await.expect("a task of a crew hangs");
    }
}

/// How often a pulse beats, and how long it takes at most in a process that is not too busy to run its tasks.
const BEAT: Duration = Duration::from_millis(10);
const USUAL: Duration = Duration::from_millis(20);

/// Records each time in which the machine left this process no time to run a task.
async fn pulse(recorder: Arc<Recorder>) {
    loop {
        let since = Stamp::now().after(USUAL);
        sleep(BEAT).await;
        if since < Stamp::now() {
            recorder.record(0, "", Op::Busy { since });
        }
    }
}

impl Job {
    /// Each that is acquired by hand, once.
    pub const ALL: [Self; 6] =
        [Self::Mutex, Self::Fair, Self::Read, Self::Write, Self::Permits, Self::Pair];

    /// The name of the lock that a crew uses this way.
    pub fn lock(self) -> &'static str {
        self.uses().0
    }

    /// With whom it shares the lock.
    pub fn share(self) -> Share {
        self.uses().1
    }

    /// Acquires the lock `name` this way.
    ///
    /// # Errors
    ///
    /// The error of the acquire.
    ///
    /// # Cancel safety
    ///
    /// That of the acquire.
    pub async fn acquire(
        self,
        client: &LockClient,
        name: &str,
        options: LockOptions,
    ) -> Result<LockGuard, LockError> {
        match self {
            Self::Mutex | Self::Function | Self::Service => {
                client.mutex(name).with(options).lock().await
            }
            Self::Fair => client.fair_mutex(name).with(options).lock().await,
            Self::Read => client.rw_lock(name).with(options).read().await,
            Self::Write => client.rw_lock(name).with(options).write().await,
            Self::Permits => client.semaphore(name, LIMIT).with(options).acquire().await,
            Self::Pair => client.multi_lock(parts(name)).with(options).lock().await,
        }
    }

    /// The name of its lock, and with whom it shares that.
    fn uses(self) -> (&'static str, Share) {
        match self {
            Self::Mutex => ("mutex", Share::Exclusive),
            Self::Fair => (FAIR, Share::Exclusive),
            Self::Read => ("read-write", Share::Readers),
            Self::Write => ("read-write", Share::Exclusive),
            Self::Permits => ("permits", Share::Permits { count: 1, limit: LIMIT }),
            Self::Pair => (PAIR, Share::Exclusive),
            Self::Function | Self::Service => (CALLED, Share::Exclusive),
        }
    }
}

/// The names of a lock of several names: of the pair, its [`PARTS`].
fn parts(name: &str) -> [String; 2] {
    ["one", "two"].map(|part| format!("{{{name}}}{part}"))
}
