//! What a survey found.
//!
//! Every type here implements `Serialize`: durations are whole milliseconds, in fields that end in `_ms`, and times are
//! milliseconds since 1970.
#![expect(clippy::disallowed_types, reason = "times that people read; no decision uses them")]

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize, Serializer};

use super::graph::Deadlock;
use super::wire::millis;
use crate::error::StoreError;
use crate::key::LockKey;
use crate::store::HoldKind;

/// What a [survey](crate::admin::Admin::survey) found: who holds which lock, since when, from which process and line, and who
/// waits for it.
///
/// Nothing is stored for this: a survey asks every process that uses the same database of a server, and puts what they answer
/// beside what the store shows. A client with a namespace asks the clients of that namespace, and one without asks all. An answer may be outdated when it arrives; show it to people, but do not base decisions on it.
///
/// Every client answers, unless it was built with [`survey(false)`](crate::LockClientBuilder::survey), at most four times a
/// second. An answer has names of locks, times, and places in the program, but no owner id, fencing token, address or password.
/// On a server with access control lists, a user needs the commands and channels that
/// [`LockClientBuilder::connect`](crate::LockClientBuilder) lists; without them locks work as ever.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Survey {
    /// The clients that answered, by service, host and process.
    pub clients: Vec<SurveyedClient>,
    /// The locks, by name.
    pub locks: Vec<SurveyedLock>,
    /// How many clients listen and have not answered in time: they hang, or have answered too many surveys.
    pub missing: usize,
    /// How many holds in the store belong to clients of this library that have not answered. Such a client hangs, is gone and
    /// its lease goes on, answers no surveys, or was not reached: its user may use only the channels of its namespace, or its
    /// version listens only there. Holds of Redisson's are not counted.
    pub unaccounted: usize,
    /// False if clients are missing, holds are unaccounted for, a limit has left something out, or the names in the store
    /// could not be listed. If only the clients were asked, a wait for a lock that none of them holds makes it false.
    pub is_complete: bool,
    /// True if a limit, the time or the number of pages has left out names, holds or waits; or if there are more pairs of a
    /// hold and a wait than the 100 000 that are looked at for [possible deadlocks](Self::possible_deadlocks).
    pub is_cut: bool,
    /// Why the names in the store could not be listed, or some of them not be looked at; of those locks there is what clients
    /// have said.
    #[serde(serialize_with = "as_sentence")]
    pub not_listed: Option<StoreError>,
    pub(super) deadlocks: Vec<Deadlock>,
    pub(super) possible_deadlocks: Vec<Deadlock>,
}

impl Survey {
    /// Notes that something was left out, if that is so.
    pub(super) fn cut_if(&mut self, is_cut: bool) {
        self.is_cut |= is_cut;
        self.is_complete &= !is_cut;
    }

    /// Returns the holders that wait for each other in a circle, so that none can go on unless a wait has a limit or a
    /// holder is ended. Each is found in two looks one after the other, so that none is reported that only seems to be one.
    ///
    /// A process knows what a call is inside of by the path of the call: holds of annotated functions, layers and
    /// [`LockGuard::run`](crate::LockGuard::run). A deadlock of guards in variables is a
    /// [possible one](Self::possible_deadlocks). One through a semaphore or through a client of Redisson's is not seen.
    /// A reader that waits behind a writer counts as waiting for the readers that the writer waits for.
    #[must_use]
    pub fn deadlocks(&self) -> &[Deadlock] {
        &self.deadlocks
    }

    /// Returns the clients that wait for each other in a circle, where it is not known whether the tasks do: a task that waits
    /// may have a guard in a variable, and nothing says which. Each edge is a hold and a wait of one client, which began after
    /// the hold and has lasted for a second.
    ///
    /// Two processes that each keep a lock for long and also wait for the other's look alike, so look at the two sites of each
    /// edge. A circle within one client is not reported.
    ///
    /// # Examples
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let survey = lock_runtime::LockClient::in_memory().admin().survey().await?;
    /// for deadlock in survey.possible_deadlocks() {
    ///     println!("perhaps: {deadlock}");
    /// }
    /// # Ok::<_, lock_runtime::LockError>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn possible_deadlocks(&self) -> &[Deadlock] {
        &self.possible_deadlocks
    }
}

/// A client that answered.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct SurveyedClient {
    /// Who it is.
    pub client: Arc<SurveyedProcess>,
    /// How many holds it has listed.
    pub holds: usize,
    /// How many waits it has listed.
    pub waits: usize,
    /// How long its answer took.
    #[serde(rename = "answered_in_ms", serialize_with = "millis::serialize")]
    pub answered_in: Duration,
    /// True if the limit has left some of its holds or waits out.
    pub is_cut: bool,
}

/// A client and its process.
// Answers have it in this form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    #[serde(with = "since_1970")]
    pub started: SystemTime,
    /// The version of this library.
    pub version: String,
}

/// `service@host:pid`.
impl fmt::Display for SurveyedProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}:{}", self.service, self.host, self.pid)
    }
}

/// A lock that is held or waited for.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct SurveyedLock {
    /// Its full name.
    #[serde(serialize_with = "as_text")]
    pub key: LockKey,
    /// The kind that it is held or waited for as.
    pub kind: Option<HoldKind>,
    /// The remaining time of the longest lease in the store, unless renewed.
    #[serde(rename = "remaining_ms", serialize_with = "millis::serialize_some")]
    pub remaining: Option<Duration>,
    /// Who holds it.
    pub holders: Vec<SurveyedHolder>,
    /// Who waits for it, the longest first.
    pub waiters: Vec<SurveyedWaiter>,
    /// How many waiters have a place in the store: the queue of a fair lock, announced writers.
    pub waiting_in_store: usize,
    /// The first waiters of a fair lock's queue, in order.
    pub queue: Vec<SurveyedPlace>,
    /// The permits of a semaphore that are free; `None` if the store does not say it.
    pub free_permits: Option<u32>,
}

/// A waiter in the queue of a fair lock in the store.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct SurveyedPlace {
    /// The client, if its process has answered.
    pub client: Option<Arc<SurveyedProcess>>,
    /// The id of the client in the store; of a client that has not answered, only the beginning.
    pub client_id: String,
    /// The process of a client that has not answered, as `service@host:pid`: by the name of its connections, if the user may
    /// list these (`+client|list`), or by what this client's earlier surveys have met.
    pub last_known: Option<String>,
    /// The number of the thread, for a waiter of Redisson's.
    pub thread: Option<u64>,
}

/// A holder of a lock.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct SurveyedHolder {
    /// The client, if its process has answered. Without one, the hold belongs to Redisson, or to a process that is gone
    /// or hangs.
    pub client: Option<Arc<SurveyedProcess>>,
    /// The id of the client in the store; of a client that has not answered, only the beginning.
    pub client_id: String,
    /// The process of a client that has not answered, as `service@host:pid`: by the name of its connections, if the user may
    /// list these (`+client|list`), or by what this client's earlier surveys have met.
    pub last_known: Option<String>,
    /// The number of the thread, for a hold of Redisson's.
    pub thread: Option<u64>,
    /// How often it was entered, or how many permits it has, by the store. Zero if the store does not know the hold: it was
    /// released in the meantime, or taken from its holder, which does not know that yet.
    pub count: u32,
    /// How long it has been held, hand-offs inside of its process included.
    #[serde(rename = "held_for_ms", serialize_with = "millis::serialize_some")]
    pub held_for: Option<Duration>,
    /// How long it stays valid without another renewal.
    #[serde(rename = "remaining_ms", serialize_with = "millis::serialize_some")]
    pub remaining: Option<Duration>,
    /// Where the program acquired it.
    pub site: Option<String>,
    /// The policy that it follows.
    pub policy: Option<String>,
    /// Its number in its process's answers.
    #[serde(skip)]
    pub(super) hold: Option<u64>,
}

/// `billing@web-1:42`; of a client that has not answered, `billing@web-1:42, which does not answer`, or what is known of it.
impl fmt::Display for SurveyedHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, client_id, last_known, thread, .. } = self.clone();
        SurveyedPlace { client, client_id, last_known, thread }.fmt(f)
    }
}

/// As a [holder](SurveyedHolder).
impl fmt::Display for SurveyedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.client, self.thread, &*self.client_id, &self.last_known) {
            (Some(client), ..) => client.fmt(f),
            (None, Some(thread), id, _) => write!(f, "Redisson client {id}, thread {thread}"),
            (None, None, "", _) => f.write_str("Redisson client"),
            (None, None, _, Some(process)) => write!(f, "{process}, which does not answer"),
            (None, None, id, None) => write!(f, "client {id}, which does not answer"),
        }
    }
}

/// A task that waits for a lock.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct SurveyedWaiter {
    /// Its client.
    pub client: Arc<SurveyedProcess>,
    /// The kind that it waits for.
    pub kind: HoldKind,
    /// How long it has waited.
    #[serde(rename = "waited_for_ms", serialize_with = "millis::serialize")]
    pub waited_for: Duration,
    /// How many tasks of its process are served before it; `None` if it asks the store.
    pub place: Option<usize>,
    /// Where the program waits.
    pub site: Option<String>,
    /// When it began: see [`wire::WaitLine`].
    #[serde(skip)]
    pub(super) began: u64,
    /// The holds around it.
    #[serde(skip)]
    pub(super) inside: Vec<u64>,
}

/// A name as text.
pub(super) fn as_text<S: Serializer>(key: &LockKey, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(key)
}

/// Times as whole milliseconds since 1970.
mod since_1970 {
    use serde::{Deserializer, Serializer};

    use super::{SystemTime, UNIX_EPOCH, millis};

    pub(super) fn serialize<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
        millis::serialize(&time.duration_since(UNIX_EPOCH).unwrap_or_default(), to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SystemTime, D::Error> {
        let time = UNIX_EPOCH.checked_add(millis::deserialize(from)?);
        Ok(time.unwrap_or(UNIX_EPOCH))
    }
}

fn as_sentence<S: Serializer>(error: &Option<StoreError>, to: S) -> Result<S::Ok, S::Error> {
    error.as_ref().map(ToString::to_string).serialize(to)
}
