//! Surveys: which process holds which lock, and which waits for it.
// S-35.

mod answering;
mod collect;
mod found;
mod graph;
mod heard;
mod local;
mod names;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

pub(crate) use self::answering::Presence;
pub use self::found::{
    Survey, SurveyedClient, SurveyedHolder, SurveyedLock, SurveyedPlace, SurveyedProcess,
    SurveyedWaiter,
};
pub use self::graph::{Deadlock, Edge};
pub(crate) use self::names::KnownNames;
use crate::acquire::Engine;
use crate::error::LockError;
use crate::opaque::opaque_debug;
use crate::store::Store;

/// How long a survey waits for answers.
const PATIENCE: Duration = Duration::from_secs(2);

/// How many locks a survey lists of each client, and of the store.
const LIMIT: usize = 1_000;

/// How many pages of names a survey asks the store for.
const PAGES: usize = 1_000;

/// A survey to be made: see [`Admin::survey`](crate::admin::Admin::survey). Await it.
#[must_use = "a survey is made when it is awaited"]
pub struct Surveying {
    engine: Arc<Engine>,
    known: Arc<KnownNames>,
    channel: String,
    namespace: Option<String>,
    prefix: String,
    within: Duration,
    limit: usize,
    pages: usize,
    checks: usize,
    asks_store: bool,
    /// True if the prefix is a whole name.
    is_name: bool,
    /// True once the servers were asked for the names of connections.
    has_asked: bool,
}

impl Surveying {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        namespace: Option<&str>,
        known: &Arc<KnownNames>,
    ) -> Self {
        Self {
            engine: Arc::clone(engine),
            known: Arc::clone(known),
            channel: wire::channel(namespace),
            namespace: namespace.map(str::to_owned),
            prefix: String::new(),
            within: PATIENCE,
            limit: LIMIT,
            pages: PAGES,
            checks: usize::MAX,
            asks_store: true,
            is_name: false,
            has_asked: false,
        }
    }

    /// Looks only at locks whose names begin so, without the client's namespace. Default: all. A prefix that no name can have
    /// makes the survey fail with [`LockError::InvalidKey`].
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self.is_name = false;
        self
    }

    /// Looks only at the lock of this name, without the client's namespace, and lists no names in the store. An invalid name
    /// makes the survey fail with [`LockError::InvalidKey`].
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let client = lock_runtime::LockClient::in_memory();
    /// let _guards = (client.mutex("order:1").lock().await?, client.mutex("order:12").lock().await?);
    /// let survey = client.admin().survey().name("order:1").await?;
    /// assert_eq!(survey.locks.len(), 1);
    /// # Ok::<_, lock_runtime::LockError>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.prefix = name.into();
        self.is_name = true;
        self
    }

    /// Sets how long it waits for answers and lists names in the store; it returns earlier if every client has answered and all
    /// names are listed. Default: 2 s, in which also a client answers that others have asked four times within the last second.
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

    /// Sets how many pages of names it asks the store for, and after how many checked keys it asks for no more.
    pub(crate) fn bounded(self, pages: usize, checks: usize) -> Self {
        Self { pages, checks, ..self }
    }

    /// Asks the clients only, which costs the server two messages for each client, however many locks there are. What only
    /// the store knows is missing then: locks of clients that do not answer and of Redisson, counts, queues and leases.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let client = lock_runtime::LockClient::in_memory();
    /// let survey = client.admin().survey().clients_only().await?;
    /// assert_eq!(survey.clients.len(), 1);
    /// # Ok::<_, lock_runtime::LockError>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn clients_only(mut self) -> Self {
        self.asks_store = false;
        self
    }

    fn store(&self) -> (&dyn Store, Duration) {
        let leases = &self.engine.leases;
        (&*leases.store, leases.timing.command_timeout)
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

/// What the fuzz targets of the workspace call.
#[cfg(feature = "__fuzz")]
pub(crate) mod fuzz {
    use uuid::Uuid;

    use super::wire::{Answer, Request};

    /// Reads a request, and returns the channel of its answers.
    pub(crate) fn reply_channel(message: &[u8]) -> Option<String> {
        Some(Request::read(message)?.reply_channel("survey"))
    }

    /// Reads an answer to that request, and returns what a client with the same holds and waits would publish.
    pub(crate) fn repeated(message: &[u8], request: Uuid) -> Option<Vec<Vec<u8>>> {
        Some(Answer::read(message, request)?.into_parts())
    }
}
