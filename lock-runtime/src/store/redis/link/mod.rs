//! The connection to one server, kept for ever.
//!
//! In place of the client library's connection manager, which does not reconnect after a time-out,
//! gives up after its retries, and never recovers from a refused password. Here one task reconnects
//! on any error, with random pauses so that a fleet does not come back in lock-step, subscribes every
//! channel anew and wakes every listener.
//!
//! A call says what is known of its effect: nothing was sent, the outcome is unknown, or the server
//! has answered. Only the first may be repeated blindly.
// S-15.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::{Mutex, MutexGuard};
use redis::{AsyncConnectionConfig, Cmd, PushInfo, PushKind, RedisError, RedisResult, Value};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, timeout, timeout_at};
use uuid::Uuid;

mod backoff;
pub(crate) mod channels;
pub(crate) mod connection;
mod in_cluster;
mod upkeep;

use self::backoff::Backoff;
pub(crate) use self::in_cluster::{Notices, asking, transmit};
use crate::error::StoreError;
use crate::store::new_id;
use crate::store::redis::endpoint::Endpoint;
use crate::store::redis::link::channels::Channels;
pub(crate) use crate::store::redis::link::connection::Connection;
use crate::store::redis::link::connection::unless_refused;
use crate::store::redis::scripts::numbered::NumberedCall;
use crate::store::redis::scripts::prepare;
pub(crate) use crate::store::redis::server::errors::CallError;
use crate::store::redis::server::errors::{server_error, was_unreached};

/// How long a connection may take to be made.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a connection may take to give a sign of life.
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct Link {
    source: Endpoint,
    /// What its connections are called by, beside those of other clients.
    id: Uuid,
    /// Empty while there is no connection.
    live: ArcSwapOption<Connection>,
    connections: AtomicU64,
    /// Told when a connection has been made or the link is closed.
    changed: Notify,
    /// Tells the task to look at the connection.
    look: Notify,
    /// True if a command went unanswered since the last answer. How long it had says little: the
    /// task asks the connection itself.
    suspicious: AtomicBool,
    /// True if an answer has come since the task last looked.
    answered: AtomicBool,
    closed: AtomicBool,
    /// Why the last attempt to connect failed, if it did.
    failed: Mutex<Option<StoreError>>,
    notices: Notices,
    pub(crate) channels: Arc<Channels>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Link {
    /// A link that is not connected yet.
    pub(crate) fn new(source: impl Into<Endpoint>) -> Arc<Self> {
        Self::named(source, new_id())
    }

    /// The same for a store whose connections have that id.
    pub(crate) fn named(source: impl Into<Endpoint>, id: Uuid) -> Arc<Self> {
        Self::made(source.into(), false, Notices::Everywhere, id)
    }

    /// The id that its connections are called by.
    pub(crate) fn id(&self) -> Uuid {
        self.id
    }

    /// Connects for the first time.
    pub(crate) async fn connect(source: impl Into<Endpoint>) -> Result<Arc<Self>, StoreError> {
        let link = Self::new(source);
        link.open_first().await?;
        link.ensure_task();
        Ok(link)
    }

    /// A second connection to the same server, or to whichever is the master. Its task makes it, once
    /// started.
    pub(crate) fn another(&self) -> Arc<Self> {
        let closed = self.closed.load(Ordering::Acquire);
        Self::made(self.source.clone(), closed, self.notices.clone(), self.id)
    }

    fn made(source: Endpoint, closed: bool, notices: Notices, id: Uuid) -> Arc<Self> {
        Arc::new(Self {
            source,
            id,
            live: ArcSwapOption::empty(),
            connections: AtomicU64::new(0),
            changed: Notify::new(),
            look: Notify::new(),
            suspicious: AtomicBool::new(false),
            answered: AtomicBool::new(false),
            closed: AtomicBool::new(closed),
            failed: Mutex::default(),
            notices,
            channels: Arc::default(),
            task: Mutex::default(),
        })
    }

    /// The number of the connection, if there is one.
    pub(crate) fn connection(&self) -> Option<u64> {
        self.live.load().as_ref().map(|live| live.number)
    }

    /// Sends one command and waits for its answer.
    pub(crate) async fn call(&self, cmd: &Cmd, deadline: Instant) -> Result<Value, CallError> {
        let live = self.connected(deadline).await?;
        // In line for the connection at the first poll, however much this task has done (S-21).
        let answer = timeout_at(deadline, unconstrained(live.ask(cmd))).await;
        self.judge(&live, answer)
    }

    /// Runs a script and waits for its answer.
    pub(crate) async fn run(
        &self,
        call: &NumberedCall,
        deadline: Instant,
    ) -> Result<Value, CallError> {
        let live = self.connected(deadline).await?;
        // As in `call`.
        let reply = timeout_at(deadline, unconstrained(live.ask(call.cmd()))).await;
        self.answer_of(&live, call, self.judge(&live, reply)?)
    }

    /// What a reply says to the call of a script. If it is another request's, so is every later one on this
    /// connection.
    pub(crate) fn answer_of(
        &self,
        live: &Connection,
        call: &NumberedCall,
        reply: Value,
    ) -> Result<Value, CallError> {
        let Some(answer) = call.answer_of(reply) else {
            self.mixed_up(live);
            return Err(CallError::MixedUp);
        };
        unless_refused(answer).map_err(|error| {
            self.heed(live, &error);
            CallError::Server(error)
        })
    }

    /// Gives up a connection on which answers do not belong to the requests that get them.
    fn mixed_up(&self, live: &Connection) {
        if !live.is_retired() {
            tracing::warn!("the lock store answered another request; its connection is dropped");
        }
        self.give_up(live);
    }

    /// Subscribes a channel and waits for the confirmation.
    pub(crate) async fn subscribe(&self, name: &str, deadline: Instant) -> Result<(), CallError> {
        let live = self.connected(deadline).await?;
        if self.channels.is_confirmed(name, live.number) {
            return Ok(());
        }
        if self.notices.are_in_slot() {
            return self.subscribe_in_slot(&live, name, deadline).await;
        }
        let answer = timeout_at(deadline, live.subscribe(name)).await;
        self.judge(&live, answer)?;
        self.channels.confirm(name, live.number);
        Ok(())
    }

    /// True if this process hears of what is published on the channel.
    pub(crate) fn is_subscribed(&self, name: &str) -> bool {
        let live = self.live.load();
        live.as_ref().is_some_and(|live| self.channels.is_confirmed(name, live.number))
    }

    /// Ends the link; the task notices at its next look.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.let_go();
        self.look.notify_one();
        self.changed.notify_waiters();
    }

    /// What an answer, or its absence, says about the command and about the connection.
    pub(crate) fn judge<T>(
        &self,
        live: &Connection,
        answer: Result<RedisResult<T>, tokio::time::error::Elapsed>,
    ) -> Result<T, CallError> {
        match answer {
            Err(_) => {
                self.suspect();
                Err(CallError::TimedOut)
            }
            Ok(Err(error)) if error.is_unrecoverable_error() || error.is_io_error() => {
                self.give_up(live);
                Err(CallError::Broken(error))
            }
            Ok(result) => {
                self.suspicious.store(false, Ordering::Relaxed);
                self.answered.store(true, Ordering::Relaxed);
                result.map_err(|error| {
                    self.heed(live, &error);
                    CallError::Server(error)
                })
            }
        }
    }

    /// Has the task ask the connection for a sign of life.
    pub(crate) fn suspect(&self) {
        self.suspicious.store(true, Ordering::Relaxed);
        self.look.notify_one();
    }

    /// False while a connection is being made.
    pub(crate) fn is_connected(&self) -> bool {
        self.live.load().is_some()
    }

    /// What an error reply says about the connection: whoever answers at this address may not be
    /// whom we connected to any more, and is looked for anew.
    // S-33.
    pub(crate) fn heed(&self, live: &Connection, error: &RedisError) {
        if matches!(error.code(), Some("READONLY" | "MASTERDOWN")) {
            // What callers read while there is no connection.
            *self.failed() = Some(server_error(error.clone()));
            self.give_up(live);
        }
    }

    /// Has no answer on a connection count any more, and drops it unless another has taken its place.
    fn give_up(&self, given_up: &Connection) {
        given_up.retire();
        let live = self.live.load_full();
        if live.as_ref().is_some_and(|live| live.number == given_up.number) {
            self.live.compare_and_swap(&live, None);
        }
        self.look.notify_one();
    }

    /// Gives up the connection that there is.
    fn let_go(&self) {
        if let Some(live) = self.live.swap(None) {
            live.retire();
        }
    }

    /// Gives up the connection of this number, if it is still in use.
    fn broke(&self, number: u64) {
        if let Some(live) = self.live.load_full().filter(|live| live.number == number) {
            self.give_up(&live);
        }
    }

    /// Leaves a server that is not the one to be connected to any more.
    fn leave_replaced(&self) {
        let (Some(live), Some(named)) = (self.live.load_full(), self.source.named()) else {
            return;
        };
        if live.is_replaced_by(&named) {
            tracing::info!("the sentinels name another master; connecting to it");
            self.give_up(&live);
        }
    }

    /// The connection, as soon as there is one.
    pub(crate) async fn connected(&self, deadline: Instant) -> Result<Arc<Connection>, CallError> {
        loop {
            if let Some(live) = self.live.load_full() {
                return Ok(live);
            }
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Register, then check, then wait.
            changed.as_mut().enable();
            if self.closed.load(Ordering::Acquire) {
                return Err(CallError::NotSent);
            }
            if let Some(refused) = self.failed().clone().filter(|why| !why.kind().is_transient()) {
                return Err(CallError::Refused(refused));
            }
            if self.live.load().is_none() && timeout_at(deadline, changed).await.is_err() {
                return Err(self.away());
            }
        }
    }

    /// Connects for the first time, and says what is wrong in the words that the server has for it.
    pub(crate) async fn open_first(self: &Arc<Self>) -> Result<(), StoreError> {
        let opened = self.open().await;
        let opened = self.source.explained(opened).await;
        self.failed().clone_from(&opened.as_ref().err().cloned());
        opened
    }

    async fn open(self: &Arc<Self>) -> Result<(), StoreError> {
        let number = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let link = Arc::downgrade(self);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            // Every call has a deadline of its own.
            .set_response_timeout(None)
            .set_pipeline_buffer_size(1024)
            .set_push_sender(move |push: PushInfo| {
                on_push(&link, number, push);
                Ok::<_, redis::aio::SendError>(())
            });
        let (mut connection, server) = self.source.connect(&config, CONNECT_TIMEOUT).await?;
        let name = format!("lock-runtime:{}", self.id);
        let prepared = prepare(&mut connection, &self.notices, &name);
        let loaded = timeout(PING_TIMEOUT, prepared).await;
        self.suspicious.store(loaded.is_err(), Ordering::Relaxed);
        let live = Arc::new(Connection::new(number, connection, server));
        self.live.store(Some(Arc::clone(&live)));
        if self.closed.load(Ordering::Acquire) {
            self.let_go(); // Whoever closes says so, and then drops what is there.
            return Ok(());
        }
        // Who heard of another server before found nothing to leave.
        self.leave_replaced();
        self.changed.notify_waiters();
        self.replay_subscriptions(&live).await;
        // Only now: whoever is woken asks the store, and hears of what happens after that.
        self.channels.notice_all();
        Ok(())
    }

    /// Starts the task, also when the runtime that ran it is gone.
    pub(crate) fn ensure_task(self: &Arc<Self>) {
        let mut task = self.task.lock();
        if task.as_ref().is_none_or(JoinHandle::is_finished) && !self.closed.load(Ordering::Acquire)
        {
            *task = Some(tokio::spawn(upkeep::attend(Arc::downgrade(self), self.source.clone())));
        }
    }

    /// Makes a connection, however long it takes; returns once there is one or none is wanted.
    async fn reconnect(self: &Arc<Self>, backoff: &mut Backoff) {
        while self.live.load().is_none() && !self.closed.load(Ordering::Acquire) {
            backoff.gone();
            self.source.pause(backoff.pause(), backoff.ends_when_reached()).await;
            let error = self.open().await.err();
            match &error {
                None => backoff.connected(),
                Some(error) => {
                    backoff.failed(was_unreached(error));
                    // A server may be away for good.
                    match backoff.warns() {
                        true => tracing::warn!(%error, "cannot connect to the lock store yet"),
                        false => tracing::debug!(%error, "cannot connect to the lock store yet"),
                    }
                }
            }
            *self.failed() = error;
            // Whoever waits for a connection learns of a refusal at once.
            self.changed.notify_waiters();
        }
    }

    /// Why a call is not sent: there is no connection.
    pub(crate) fn away(&self) -> CallError {
        self.failed().clone().map_or(CallError::NotSent, CallError::Away)
    }

    fn failed(&self) -> MutexGuard<'_, Option<StoreError>> {
        self.failed.lock()
    }
}

/// Runs inside the connection's driver: must not block.
fn on_push(link: &Weak<Link>, number: u64, push: PushInfo) {
    let Some(link) = link.upgrade() else { return };
    match push.kind {
        PushKind::Disconnection => link.broke(number),
        _ => {
            if let Some(Value::BulkString(name)) = push.data.first()
                && let Ok(name) = std::str::from_utf8(name)
            {
                link.on_notice(number, &push.kind, name);
            }
        }
    }
}
