//! Tasks that use locks of every kind over and over and record all of it: what faults are injected into.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lock_runtime::{Lease, LockClient, LockError, LockGuard, LockOptions};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::eventually::eventually;
use crate::history::{Recorder, Share};
use crate::witness::{Witness, Witnessed};

/// How many permits the semaphore of a crew has.
const LIMIT: NonZeroU32 = NonZeroU32::new(2).expect("two is not zero");

/// The longest pause of a task after each hold.
const PAUSE: Duration = Duration::from_millis(50);

/// The names of the locks that every crew uses, one for each kind of locking.
pub const LOCKS: [&str; 5] = ["mutex", "fair", "read-write", "permits", PAIR];

/// The name under which a crew records its lock of several names.
pub const PAIR: &str = "pair";

/// The names of that lock. Nothing else takes them, so both are held or none.
pub const PARTS: [&str; 2] = ["{pair}one", "{pair}two"];

/// How long the server of the values may take on a busy machine.
const VALUES_BOUND: Duration = Duration::from_secs(20);

/// Connects to the server of the values that the locks protect.
///
/// # Errors
///
/// When it cannot be reached.
pub async fn connect_to_values(url: &str) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(VALUES_BOUND));
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
}

/// The tasks of each client: enough of each for the lock to have waiters.
const JOBS: [Job; 11] = [
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
];

/// How the tasks of a crew behave.
#[derive(Debug, Clone, Copy)]
pub struct Habits {
    /// The lease of their holds, which the watchdog renews.
    pub lease: Duration,
    /// How long they wait for a lock before they ask anew.
    pub wait: Duration,
    /// Whether they drop some acquires and some guards halfway.
    pub cancel: bool,
    /// What their choices follow from, together with their number.
    pub seed: u64,
}

impl Default for Habits {
    fn default() -> Self {
        let wait = Duration::from_secs(2);
        Self { lease: Duration::from_secs(1), wait, cancel: false, seed: 1 }
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
            recorder: Arc::clone(recorder),
            habits,
            values,
            grants: Arc::new(LOCKS.map(|name| (name, AtomicU64::new(0))).into()),
            stop: watch::Sender::new(false),
            tasks: JoinSet::new(),
        }
    }

    /// Starts the tasks of one client.
    pub fn add(&mut self, client: &LockClient) {
        for job in JOBS {
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
        let before = LOCKS.map(count);
        for (name, before) in LOCKS.iter().zip(before) {
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

/// One task of a crew.
struct Member {
    client: LockClient,
    job: Job,
    number: u64,
    habits: Habits,
    values: MultiplexedConnection,
    grants: Arc<BTreeMap<&'static str, AtomicU64>>,
    choices: fastrand::Rng,
}

impl Member {
    async fn run(mut self, recorder: Arc<Recorder>, stopped: watch::Receiver<bool>) {
        let (name, share) = self.job.uses();
        let witness = Witness::new(&recorder, self.number, name, share);
        while !*stopped.borrow() {
            let acquire = witness.acquire(self.acquire());
            let patience = self.patience();
            // Or else it has failed, or was dropped.
            if let Ok(Ok(held)) = timeout(patience, acquire).await {
                self.grants[name].fetch_add(1, Ordering::Relaxed);
                self.hold(held).await;
            }
            sleep(self.pause()).await;
        }
    }

    /// Long enough for other tests to run beside the crew's.
    fn pause(&mut self) -> Duration {
        self.choices.u32(..1000) * PAUSE / 1000
    }

    /// After what time an acquire is dropped.
    fn patience(&mut self) -> Duration {
        if self.habits.cancel && self.choices.u8(..8) == 0 {
            return Duration::from_micros(self.choices.u64(..3_000));
        }
        Duration::MAX
    }

    fn acquire(&self) -> impl Future<Output = Result<LockGuard, LockError>> + use<> {
        let Habits { lease, wait, .. } = self.habits;
        let options = LockOptions::builder().lease(Lease::Watchdog(lease)).wait(wait).build();
        let (job, client) = (self.job, self.client.clone());
        async move { job.acquire(&client, job.lock(), options?).await }
    }

    /// Uses the lock: for a moment as a rule, and now and then for so long that it has to be renewed.
    async fn hold(&mut self, mut held: Witnessed<'_>) {
        match self.choices.u8(..) {
            0 => held.work(self.habits.lease / 2).await,
            _ if self.job.uses().1 == Share::Exclusive => {
                let work = Duration::from_micros(self.choices.u64(..2_000));
                held.update(&mut self.values, work).await;
            }
            _ => held.work(Duration::from_micros(self.choices.u64(..2_000))).await,
        }
        if self.habits.cancel && self.choices.u8(..8) == 0 {
            return drop(held);
        }
        // That it was lost, or that the store was away, is in the history.
        let _ = held.release().await;
    }
}

impl Job {
    /// Each once.
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
            Self::Mutex => client.mutex(name).with(options).lock().await,
            Self::Fair => client.fair_mutex(name).with(options).lock().await,
            Self::Read => client.rw_lock(name).with(options).read().await,
            Self::Write => client.rw_lock(name).with(options).write().await,
            Self::Permits => {
                client.semaphore(name, LIMIT).with(options).acquire().await.map(LockGuard::from)
            }
            Self::Pair => client.multi_lock(parts(name)).with(options).lock().await,
        }
    }

    /// The name of its lock, and with whom it shares that.
    fn uses(self) -> (&'static str, Share) {
        match self {
            Self::Mutex => ("mutex", Share::Exclusive),
            Self::Fair => ("fair", Share::Exclusive),
            Self::Read => ("read-write", Share::Readers),
            Self::Write => ("read-write", Share::Exclusive),
            Self::Permits => ("permits", Share::Permits { count: 1, limit: LIMIT.get() }),
            Self::Pair => (PAIR, Share::Exclusive),
        }
    }
}

/// The names of a lock of several names: of the pair, its [`PARTS`].
fn parts(name: &str) -> [String; 2] {
    ["one", "two"].map(|part| format!("{{{name}}}{part}"))
}
