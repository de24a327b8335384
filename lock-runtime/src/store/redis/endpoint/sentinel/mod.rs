//! The master that sentinels name: found, connected to, and left as soon as another is named.
//!
//! In place of the client library's own, which takes the first answer, be it that of a sentinel which has
//! missed a fail-over, and is not told of the next one.

pub(crate) mod address;
mod named;
mod node;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{Either, join, select};
use futures_util::stream::FuturesUnordered;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Value};
use tokio::sync::{Mutex, Notify, watch};
use tokio::time::{Instant, timeout, timeout_at};

use self::address::Master;
pub(crate) use self::named::Named;
use self::named::{Known, learn};
use self::node::Node;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::redis::endpoint::connect;
use crate::store::redis::server::errors::connect_error;

/// How long one sentinel may take to answer.
const NODE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the others may take once a majority has answered.
const GRACE: Duration = Duration::from_millis(200);

/// How often the sentinels are asked while all is well: their events may get lost.
const EVERY: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct Sentinels {
    master: Master,
    nodes: Vec<Node>,
    reports: Mutex<SentinelReports>,
    /// Told when a sentinel has published a fail-over.
    hint: Arc<Notify>,
    named: watch::Sender<Option<Named>>,
}

/// What the sentinels have said.
#[derive(Default)]
struct SentinelReports {
    known: Option<Known>,
    last: Option<Look>,
}

struct Look {
    at: Instant,
    outcome: Result<Named, StoreError>,
}

impl Sentinels {
    pub(crate) fn new(master: Master, nodes: Vec<Node>) -> Self {
        let (reports, hint, named) = (Mutex::default(), Arc::default(), watch::Sender::new(None));
        Self { master, nodes, reports, hint, named }
    }

    /// Connects to the master, within `limit` once it is named. While that takes, a newer one may be.
    pub(crate) async fn connect(
        &self,
        config: &AsyncConnectionConfig,
        limit: Duration,
    ) -> Result<(MultiplexedConnection, Named), StoreError> {
        loop {
            let named = self.look(Duration::ZERO).await?;
            let reached = {
                let reaching = self.reach(&named, config, limit);
                let newer = self.other_than(&named);
                match select(pin!(reaching), pin!(newer)).await {
                    Either::Left((reached, _)) => Some(reached),
                    Either::Right(_) => None,
                }
            };
            let Some(connection) = reached else { continue };
            let connection = connection?;
            // A server that was silent until now may have been replaced before it said that it is a master.
            if self.look(Duration::ZERO).await?.is_at(&named) {
                return Ok((connection, named));
            }
        }
    }

    async fn reach(
        &self,
        named: &Named,
        config: &AsyncConnectionConfig,
        limit: Duration,
    ) -> Result<MultiplexedConnection, StoreError> {
        let client = self.master.client(&named.host, named.port)?;
        let connection = connect(&client, config, limit).await;
        let connection = connection.map_err(|error| self.unreachable(error))?;
        let role = timeout(limit, role(&connection)).await;
        match role.unwrap_or_else(|_| Err(not_master())) {
            Ok(true) => Ok(connection),
            Ok(false) => Err(not_master()),
            Err(error) => Err(error),
        }
    }

    /// Why the named server cannot be connected to, for who knows it by its name only.
    fn unreachable(&self, error: StoreError) -> StoreError {
        let name = self.master.name();
        let message = match error.kind() {
            StoreErrorKind::Unavailable => format!(
                "the server that the sentinels name as {name:?} cannot be reached; it may be down, or \
                 they announce an address that does not lead to it from here"
            ),
            StoreErrorKind::Denied => format!(
                "the server that the sentinels name as {name:?} refuses this client; if it wants \
                 a user and a password, they belong into the master: redis://user:password@{name}"
            ),
            _ => return error,
        };
        StoreError::new(error.kind(), message).with_source(error)
    }

    pub(crate) fn named(&self) -> Option<Named> {
        self.named.borrow().clone()
    }

    /// Completes when another server is named than before.
    pub(crate) async fn renamed(&self) {
        let _ = self.named.subscribe().changed().await;
    }

    /// Completes when another server is named than this.
    async fn other_than(&self, named: &Named) {
        let is_other = |now: &Option<Named>| now.as_ref().is_some_and(|now| !now.is_at(named));
        let _ = self.named.subscribe().wait_for(is_other).await;
    }

    /// Asks the sentinels for ever, and tells when they name another server.
    pub(crate) async fn follow(&self, renamed: impl Fn()) {
        let mut names = self.named.subscribe();
        let ask = async {
            let (mut newer_than, mut well) = (EVERY / 2, true);
            loop {
                let error = self.look(newer_than).await.err();
                if let Some(error) = error.as_ref().filter(|_| well) {
                    tracing::warn!(%error, "a fail-over goes unnoticed until a sentinel answers");
                }
                well = error.is_none();
                // A fleet does not ask in step.
                let pause = EVERY.mul_f64(0.75 + 0.5 * fastrand::f64());
                let hinted = timeout(pause, self.hint.notified()).await.is_ok();
                newer_than = if hinted { Duration::ZERO } else { EVERY / 2 };
            }
        };
        let tell = async {
            // What was named before the first look here may not be what the link is connected to.
            renamed();
            while names.changed().await.is_ok() {
                renamed();
            }
        };
        let ((), ()) = join(ask, tell).await;
    }

    /// Ends the connections to the sentinels.
    pub(crate) fn rest(&self) {
        self.nodes.iter().for_each(Node::rest);
    }

    /// Which server is the master, asked no longer ago than `newer_than`.
    async fn look(&self, newer_than: Duration) -> Result<Named, StoreError> {
        let mut reports = self.reports.lock().await;
        if let Some(last) = &reports.last
            && last.at.elapsed() < newer_than
        {
            return last.outcome.clone();
        }
        let at = Instant::now();
        let answers = self.ask_all().await;
        let names: Vec<_> =
            answers.iter().filter_map(|answer| answer.as_ref().ok()?.clone()).collect();
        let outcome = match learn(&names, reports.known.as_ref(), self.nodes.len(), Instant::now())
        {
            Some(known) => {
                let named = known.named.clone();
                reports.known = Some(known);
                Ok(named)
            }
            None => Err(self.nothing_learnt(answers, !names.is_empty(), reports.known.is_some())),
        };
        if let Ok(named) = &outcome {
            self.announce(named);
        }
        reports.last = Some(Look { at, outcome: outcome.clone() });
        outcome
    }

    fn announce(&self, named: &Named) {
        self.named.send_if_modified(|before| {
            let same = before.as_ref().is_some_and(|before| before.is_at(named));
            *before = Some(named.clone());
            !same
        });
    }

    /// The answers of all sentinels that answer in time.
    async fn ask_all(&self) -> Vec<Result<Option<Named>, StoreError>> {
        let ask = |node| Node::ask(node, self.master.name(), &self.hint);
        let mut asking: FuturesUnordered<_> = self.nodes.iter().map(ask).collect();
        let mut answers = Vec::new();
        let (mut until, mut said) = (Instant::now() + NODE_TIMEOUT, 0);
        while let Ok(Some(answer)) = timeout_at(until, asking.next()).await {
            said += usize::from(answer.is_ok());
            answers.push(answer);
            if 2 * said > self.nodes.len() {
                until = until.min(Instant::now() + GRACE);
            }
        }
        answers
    }

    /// Why nobody is named whom one could connect to.
    fn nothing_learnt(
        &self,
        answers: Vec<Result<Option<Named>, StoreError>>,
        outdated: bool,
        was_known: bool,
    ) -> StoreError {
        let (name, asked) = (self.master.name(), self.nodes.len());
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
            // The name was right once, so they are being set up anew.
            let kind = if was_known { StoreErrorKind::NotReady } else { StoreErrorKind::Config };
            return StoreError::new(kind, message);
        }
        let mut errors: Vec<_> = answers.into_iter().filter_map(Result::err).collect();
        // What waiting does not mend first.
        errors.sort_by_key(|error| error.kind().is_transient());
        let Some(error) = errors.into_iter().next() else { return no_sentinel(asked) };
        match error.kind() {
            StoreErrorKind::Unavailable => no_sentinel(asked).with_source(error),
            kind => {
                let message = format!("no sentinel of the {asked} asked can be used");
                StoreError::new(kind, message).with_source(error)
            }
        }
    }
}

fn no_sentinel(asked: usize) -> StoreError {
    let message = format!(
        "no sentinel of the {asked} asked can be reached; check their addresses and that they run"
    );
    StoreError::new(StoreErrorKind::Unavailable, message)
}

/// True if the server thinks itself a master: the sentinels name one that is promoted before it is, and
/// one that is not a master any more until the next is.
async fn role(connection: &MultiplexedConnection) -> Result<bool, StoreError> {
    let mut connection = connection.clone();
    let answer = connection.send_packed_command(&redis::cmd("ROLE")).await;
    // Sentinels cut clients off while they promote, which is no refusal.
    match answer.and_then(Value::extract_error).map_err(connect_error)? {
        Value::Array(parts) => match parts.first() {
            Some(Value::BulkString(role)) => Ok(role == b"master"),
            _ => Err(not_understood()),
        },
        _ => Err(not_understood()),
    }
}

fn not_master() -> StoreError {
    let message = "the server that the sentinels name does not say that it is a master";
    StoreError::new(StoreErrorKind::NotReady, message)
}

fn not_understood() -> StoreError {
    let message = "a sentinel, or the server that it names, gave an answer that is not understood";
    StoreError::new(StoreErrorKind::Protocol, message)
}
