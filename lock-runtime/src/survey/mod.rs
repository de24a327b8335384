//! Who holds which lock, since when, from which process and line, and who waits for it.
//!
//! Nothing is stored for this: a survey asks every process that uses the same server, and puts what they answer beside what
//! the store shows. An answer may be outdated when it arrives; show it to people, but do not base decisions on it.
//!
//! Every client answers, unless it was built with [`survey(false)`](crate::LockClientBuilder::survey), at most four times a
//! second. An answer has names of locks, times, and places in the program, but no owner id, fencing token, address or password.
//! On a server with access control lists, a user needs the commands and channels that
//! [`RedisStore`](crate::store::RedisStore) lists; without them locks work as ever.
// S-35.

mod answering;
mod collect;
mod graph;
mod local;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use uuid::Uuid;

pub use self::graph::{Deadlock, Edge};
use self::wire::Identity;
use crate::acquire::Engine;
use crate::error::LockError;
use crate::key::LockKey;
use crate::opaque::opaque_debug;
use crate::store::{HoldKind, Listening};

/// Has a client answer surveys until dropped.
pub(crate) struct Presence {
    _answering: Listening,
}

impl Presence {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        namespace: Option<&str>,
        service: Option<&str>,
    ) -> Self {
        let identity = Identity::of(engine, service);
        Self { _answering: answering::answer(engine, &wire::channel(namespace), identity) }
    }
}

opaque_debug!(Presence);

/// How long a survey waits for answers.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many locks a survey lists of each client, and of the store.
const LIMIT: usize = 1_000;

/// A survey to be made: see [`LockClient::survey`](crate::LockClient::survey). Await it.
#[must_use = "a survey is made when it is awaited"]
pub struct Surveying {
    engine: Arc<Engine>,
    channel: String,
    namespace: Option<String>,
    prefix: String,
    within: Duration,
    limit: usize,
}

impl Surveying {
    pub(crate) fn new(engine: &Arc<Engine>, namespace: Option<&str>) -> Self {
        Self {
            engine: Arc::clone(engine),
            channel: wire::channel(namespace),
            namespace: namespace.map(str::to_owned),
            prefix: String::new(),
            within: PATIENCE,
            limit: LIMIT,
        }
    }

    /// Looks only at locks whose names begin so, without the client's namespace. Default: all.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets how long it waits for answers; it returns earlier if every client has answered. Default: 1 s.
    pub fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }

    /// Sets how many holds and how many waits each client lists, and how many locks of the store are looked at. Default:
    /// 1 000.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    fn full_prefix(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}:{}", self.prefix),
            None => self.prefix.clone(),
        }
    }
}

opaque_debug!(Surveying);

impl IntoFuture for Surveying {
    type Output = Result<Survey, LockError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.make())
    }
}

/// What a [survey](crate::LockClient::survey) found.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Survey {
    /// The clients that answered, by service, host and process.
    pub clients: Vec<SurveyedClient>,
    /// The locks, by name.
    pub locks: Vec<SurveyedLock>,
    /// How many clients listen and have not answered in time: they hang, or have answered too many surveys.
    pub missing: usize,
    /// False if a limit has left holds, waits or locks out, or the store could not be looked at.
    pub is_complete: bool,
    deadlocks: Vec<Deadlock>,
}

impl Survey {
    /// Returns the holders that wait for each other in a circle, so that none can go on unless a wait has a limit or a
    /// holder is ended. Each is found in two looks one after the other, so that none is reported that only seems to be one.
    ///
    /// A process knows what a call is inside of by the path of the call: holds of annotated functions, layers and
    /// [`LockGuard::run`](crate::LockGuard::run). A deadlock of guards that nothing runs inside of is not seen, nor is one
    /// through a semaphore.
    #[must_use]
    pub fn deadlocks(&self) -> &[Deadlock] {
        &self.deadlocks
    }
}

/// A client that answered.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SurveyedClient {
    /// Who it is.
    pub client: Arc<SurveyedProcess>,
    /// How many holds it has listed.
    pub holds: usize,
    /// How many waits it has listed.
    pub waits: usize,
    /// How long its answer took.
    pub answered_in: Duration,
    /// True if the limit has left some of its holds or waits out.
    pub is_cut: bool,
}

/// A client and its process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SurveyedProcess {
    /// The id of the client, under which the store knows its holds.
    pub id: String,
    /// The service that it belongs to: the name given to the builder, or that of the executable.
    pub service: String,
    /// The name of its host.
    pub host: String,
    /// The id of its process.
    pub pid: u32,
    /// When the process created its first client.
    pub started: SystemTime,
    /// The version of this library.
    pub version: String,
}

impl From<&Identity> for SurveyedProcess {
    fn from(identity: &Identity) -> Self {
        let Identity { id, service, host, pid, started, version } = identity.clone();
        let started = UNIX_EPOCH.checked_add(Duration::from_millis(started)).unwrap_or(UNIX_EPOCH);
        Self { id: id.to_string(), service, host, pid, started, version }
    }
}

/// `service@host:pid`.
impl fmt::Display for SurveyedProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}:{}", self.service, self.host, self.pid)
    }
}

/// A lock that is held or waited for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SurveyedLock {
    /// Its full name.
    pub key: LockKey,
    /// The kind that it is held or waited for as.
    pub kind: Option<HoldKind>,
    /// The remaining time of the longest lease in the store, unless renewed.
    pub remaining: Option<Duration>,
    /// Who holds it.
    pub holders: Vec<SurveyedHolder>,
    /// Who waits for it, the longest first.
    pub waiters: Vec<SurveyedWaiter>,
    /// How many waiters have a place in the store: the queue of a fair lock, announced writers.
    pub waiting_in_store: usize,
}

/// A holder of a lock.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SurveyedHolder {
    /// The client whose process has answered. `None` if none claims the hold: it belongs to Redisson, or to a process
    /// that is gone or hangs.
    pub client: Option<Arc<SurveyedProcess>>,
    /// The id of the client in the store.
    pub client_id: String,
    /// How often it was entered, or how many permits it has, by the store.
    pub count: u32,
    /// How long it has been held, hand-offs inside of its process included.
    pub held_for: Option<Duration>,
    /// How long it stays valid without another renewal.
    pub remaining: Option<Duration>,
    /// Where the program acquired it.
    pub site: Option<String>,
    /// The policy that it follows.
    pub policy: Option<String>,
    /// Its number in its process's answers.
    hold: Option<u64>,
}

/// A task that waits for a lock.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SurveyedWaiter {
    /// Its client.
    pub client: Arc<SurveyedProcess>,
    /// The kind that it waits for.
    pub kind: HoldKind,
    /// How long it has waited.
    pub waited_for: Duration,
    /// How many tasks of its process are served before it; `None` if it asks the store.
    pub place: Option<usize>,
    /// Where the program waits.
    pub site: Option<String>,
    /// When it began: see [`wire::WaitLine`].
    began: u64,
    /// The holds around it.
    inside: Vec<u64>,
}

/// Parses an id as clients have it; others are foreign.
fn uuid(text: &str) -> Option<Uuid> {
    Uuid::parse_str(text).ok()
}
