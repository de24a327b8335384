//! Finds the master that the sentinels name, connects to it, and leaves it as soon as they name another one.
//!
//! The client library's own code believes the first answer, even of a sentinel that has missed a failover, and does
//! not learn of the next failover.

mod address;
mod named;
pub(crate) mod node;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join;
use futures_util::stream::FuturesUnordered;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Value};
use tokio::sync::{Mutex, Notify, watch};
use tokio::time::{Instant, timeout, timeout_at};

use self::address::MasterName;
pub(crate) use self::named::Master;
use self::named::{Known, learn};
use self::node::Node;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::redis::server::errors::{Cause, cause, connect_error};
use crate::store::redis::server::{Opened, open};

/// How long one sentinel may take to answer.
const NODE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the other sentinels may take once a majority has answered.
const GRACE: Duration = Duration::from_millis(200);

/// How often the sentinels are asked, since their events may get lost.
const EVERY: Duration = Duration::from_secs(1);

/// The sentinels of one master.
pub(crate) struct Sentinels {
    name: MasterName,
    nodes: Vec<Node>,
    reports: Mutex<SentinelReports>,
    /// Notified when a sentinel publishes a failover.
    hint: Arc<Notify>,
    master: watch::Sender<Option<Master>>,
}

/// The answers of the sentinels.
#[derive(Default)]
struct SentinelReports {
    known: Option<Known>,
    /// When they were last asked, and the result.
    last: Option<(Instant, Result<Master, StoreError>)>,
}

impl Sentinels {
    fn new(name: MasterName, nodes: Vec<Node>) -> Self {
        let (reports, hint, master) = (Mutex::default(), Arc::default(), watch::Sender::new(None));
        Self { name, nodes, reports, hint, master }
    }

    /// Connects to the master, within `limit` once it is known; starts again if the sentinels name another one
    /// meanwhile.
    pub(crate) async fn connect(
        &self,
        config: &AsyncConnectionConfig,
        limit: Duration,
    ) -> Result<(Opened, Master), StoreError> {
        loop {
            let master = self.find(Duration::ZERO).await?;
            let opened = tokio::select! {
                biased;
                opened = self.reach(&master, config, limit) => opened?,
                () = self.other_than(&master) => continue,
            };
            // The sentinels may have replaced a server that was silent before it said that it is a master.
            if self.find(Duration::ZERO).await?.is_at(&master) {
                return Ok((opened, master));
            }
        }
    }

    async fn reach(
        &self,
        master: &Master,
        config: &AsyncConnectionConfig,
        limit: Duration,
    ) -> Result<Opened, StoreError> {
        let client = self.name.client(&master.host, master.port)?;
        let opened = open(&client, config, limit).await;
        let opened = opened.map_err(|error| self.unreachable(error))?;
        match timeout(limit, is_master(&opened.connection, master)).await {
            Ok(Ok(true)) => Ok(opened),
            Ok(Err(error)) => Err(error),
            Ok(Ok(false)) | Err(_) => Err(StoreError::new(
                StoreErrorKind::NotReady,
                "the server that the sentinels name does not say that it is a master",
            )),
        }
    }

    /// Adds the name of the master to the error of connecting to it: the user knows no address.
    fn unreachable(&self, error: StoreError) -> StoreError {
        let name = &self.name.name;
        let message = match error.kind() {
            StoreErrorKind::Unavailable => format!(
                "the server that the sentinels name as {name:?} cannot be reached; it may be down, or \
                 they announce an address that does not lead to it from here"
            ),
            StoreErrorKind::Denied => format!(
                "the server that the sentinels name as {name:?} refuses this client; if it wants \
                 a user and a password, write redis://user:password@{name} as the master"
            ),
            _ => return error,
        };
        StoreError::new(error.kind(), message).with_source(error)
    }

    pub(crate) fn master(&self) -> Option<Master> {
        self.master.borrow().clone()
    }

    /// Completes when the sentinels name another server than before.
    pub(crate) async fn changed(&self) {
        let _ = self.master.subscribe().changed().await;
    }

    /// Completes when the sentinels name another server than this.
    async fn other_than(&self, master: &Master) {
        let is_other = |now: &Option<Master>| now.as_ref().is_some_and(|now| !now.is_at(master));
        let _ = self.master.subscribe().wait_for(is_other).await;
    }

    /// Asks the sentinels forever and calls `changed` when they name another server.
    pub(crate) async fn follow(&self, changed: impl Fn()) {
        let mut masters = self.master.subscribe();
        let ask = async {
            let (mut newer_than, mut well) = (EVERY / 2, true);
            loop {
                let error = self.find(newer_than).await.err();
                if let Some(error) = error.as_ref().filter(|_| well) {
                    tracing::warn!(%error, "a failover goes unnoticed until a sentinel answers");
                }
                well = error.is_none();
                // At random, so that a fleet does not ask in step.
                let pause = EVERY.mul_f64(0.75 + 0.5 * fastrand::f64());
                let hinted = timeout(pause, self.hint.notified()).await.is_ok();
                newer_than = if hinted { Duration::ZERO } else { EVERY / 2 };
            }
        };
        let tell = async {
            // The link may be connected to another server than was named before this began.
            changed();
            while masters.changed().await.is_ok() {
                changed();
            }
        };
        let ((), ()) = join(ask, tell).await;
    }

    /// Ends the connections to the sentinels.
    pub(crate) fn disconnect(&self) {
        self.nodes.iter().for_each(Node::disconnect);
    }

    /// Finds the master by an answer that is at most `newer_than` old.
    async fn find(&self, newer_than: Duration) -> Result<Master, StoreError> {
        let mut reports = self.reports.lock().await;
        if let Some((at, outcome)) = &reports.last
            && at.elapsed() < newer_than
        {
            return outcome.clone();
        }
        let asked = Instant::now();
        let answers = self.ask_all().await;
        let masters: Vec<_> =
            answers.iter().filter_map(|answer| answer.as_ref().ok()?.clone()).collect();
        let known = reports.known.as_ref();
        let outcome = match learn(&masters, known, self.nodes.len(), Instant::now()) {
            Some(known) => {
                let master = known.master.clone();
                reports.known = Some(known);
                self.master.send_if_modified(|before| {
                    let is_same = before.as_ref().is_some_and(|before| before.is_at(&master));
                    *before = Some(master.clone());
                    !is_same
                });
                Ok(master)
            }
            None => Err(self.not_found(answers, !masters.is_empty(), known.is_some())),
        };
        reports.last = Some((asked, outcome.clone()));
        outcome
    }

    /// The answers of all sentinels that answer in time.
    async fn ask_all(&self) -> Vec<Result<Option<Master>, StoreError>> {
        let ask = |node| Node::ask(node, &self.name.name, &self.hint);
        let mut asking: FuturesUnordered<_> = self.nodes.iter().map(ask).collect();
        let mut answers = Vec::new();
        let (mut until, mut answered) = (Instant::now() + NODE_TIMEOUT, 0);
        while let Ok(Some(answer)) = timeout_at(until, asking.next()).await {
            answered += usize::from(answer.is_ok());
            answers.push(answer);
            if 2 * answered > self.nodes.len() {
                until = until.min(Instant::now() + GRACE);
            }
        }
        answers
    }

    /// The error of answers that name no usable master.
    fn not_found(
        &self,
        answers: Vec<Result<Option<Master>, StoreError>>,
        outdated: bool,
        was_known: bool,
    ) -> StoreError {
        let (name, asked) = (&self.name.name, self.nodes.len());
        if outdated {
            let message = format!(
                "the sentinels that answer, of {asked}, name an older master {name:?} than the one \
                 that is known"
            );
            return StoreError::new(StoreErrorKind::NotReady, message);
        }
        if answers.iter().any(|answer| matches!(answer, Ok(None))) {
            let message = format!(
                "the sentinels do not know a master {name:?}; give the name that `sentinel monitor` \
                 has in their configuration"
            );
            // They knew the name before, so they are being set up anew.
            let kind = if was_known { StoreErrorKind::NotReady } else { StoreErrorKind::Config };
            return StoreError::new(kind, message);
        }
        let mut errors: Vec<_> = answers.into_iter().filter_map(Result::err).collect();
        // Permanent errors say more.
        errors.sort_by_key(|error| error.kind().is_transient());
        match errors.into_iter().next() {
            Some(error) if error.kind() != StoreErrorKind::Unavailable => {
                let message = format!("no sentinel of the {asked} asked can be used: {error}");
                let unusable = StoreError::new(error.kind(), message);
                match cause(&error) {
                    Some(reply) => unusable.with_source(Cause(reply.clone())),
                    None => unusable,
                }
            }
            error => {
                let message = format!(
                    "no sentinel of the {asked} asked can be reached; check their addresses and that they run"
                );
                let unreached = StoreError::new(StoreErrorKind::Unavailable, message);
                match error {
                    Some(error) => unreached.with_source(error),
                    None => unreached,
                }
            }
        }
    }
}

/// Asks the server whether it is a master. The sentinels name a server before it is promoted, and one that is not a
/// master any more until they name the next.
async fn is_master(connection: &MultiplexedConnection, named: &Master) -> Result<bool, StoreError> {
    let mut connection = connection.clone();
    let answer = connection.send_packed_command(&redis::cmd("ROLE")).await;
    // The sentinels close clients' connections during a failover, which is not a refusal.
    let answer = answer.and_then(Value::extract_error);
    says_master(&answer.map_err(|error| connect_error(error, named.address()))?)
}

/// True if the answer to ROLE is that of a master.
pub(crate) fn says_master(role: &Value) -> Result<bool, StoreError> {
    match role.as_sequence().and_then(<[_]>::first) {
        Some(Value::BulkString(role)) => Ok(role == b"master"),
        _ => Err(not_understood()),
    }
}

fn not_understood() -> StoreError {
    let message = "a sentinel, or the server that it names, gave an answer that is not understood";
    StoreError::new(StoreErrorKind::Protocol, message)
}
