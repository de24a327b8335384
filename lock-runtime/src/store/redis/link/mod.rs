//! The connection to one server, kept forever.
//!
//! The client library's connection manager does not reconnect after a timeout, gives up after its retries, and never
//! recovers from a refused password. Here one task reconnects after any error, subscribes every channel again and
//! wakes every listener. It pauses for a random time first, so that a fleet does not reconnect in step.
//!
//! The result of a call shows what is known of its effect: nothing was sent, the outcome is unknown, or the
//! server answered. Only the first may be repeated blindly.
// S-15.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures_util::future::join;
use parking_lot::Mutex;
use redis::{AsyncConnectionConfig, PushInfo, PushKind, RedisError, RedisResult, Value};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout, timeout_at};

mod calls;
mod channels;
mod connection;
mod in_cluster;
mod name;
mod next_master;
mod notices;
mod one_slot;
mod reconnect;
mod subscribe;
mod upkeep;

use self::channels::Channels;
pub(crate) use self::channels::Listener;
pub(crate) use self::connection::Connection;
pub(crate) use self::in_cluster::asking;
pub(crate) use self::name::{ConnectionName, named};
use self::next_master::LastReleases;
pub(crate) use self::notices::Notices;
use self::one_slot::FoundCluster;
use self::reconnect::ReconnectPause;
use self::upkeep::Upkeep;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::redis::endpoint::Endpoint;
use crate::store::redis::endpoint::sentinel::Master;
use crate::store::redis::scripts::{Publish, preparation};
use crate::store::redis::server::errors::{CallError, connect_error, server_error, was_unreached};
use crate::store::redis::server::{connect_timeout, short_limit};

/// How long a connection may take to answer a PING.
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection to one server, which its task reconnects.
pub(crate) struct Link {
    endpoint: Endpoint,
    /// What its connections are called on the server; the store's other connections have the same name.
    pub(crate) name: ConnectionName,
    /// Empty while there is no connection.
    current: ArcSwapOption<Connection>,
    connections: AtomicU64,
    /// Notified when a connection has been made or the link is closed.
    changed: Notify,
    /// Has the task check the connection.
    check_now: Notify,
    /// True if a command went unanswered since the last answer. Its own timeout says little about the connection, so
    /// the task sends a PING.
    suspicious: AtomicBool,
    /// True if an answer has come since the task last checked.
    answered: AtomicBool,
    closed: AtomicBool,
    /// The error of the last attempt to connect, if it failed.
    failed: Mutex<Option<StoreError>>,
    /// In a cluster: notified when the server ends a subscription, since the slot of its channel has moved.
    unsubscribed: Option<Arc<Notify>>,
    found_cluster: FoundCluster,
    last_releases: LastReleases,
    pub(crate) channels: Arc<Channels>,
    task: Mutex<Option<Upkeep>>,
}

impl Link {
    /// A link that is not connected yet. In a cluster, `unsubscribed` is notified when the server ends a subscription.
    pub(crate) fn new(
        endpoint: impl Into<Endpoint>,
        name: ConnectionName,
        unsubscribed: Option<Arc<Notify>>,
    ) -> Arc<Self> {
        Arc::new(Self::unconnected(endpoint.into(), name, unsubscribed))
    }

    fn unconnected(
        endpoint: Endpoint,
        name: ConnectionName,
        unsubscribed: Option<Arc<Notify>>,
    ) -> Self {
        Self {
            endpoint,
            name,
            current: ArcSwapOption::empty(),
            connections: AtomicU64::new(0),
            changed: Notify::new(),
            check_now: Notify::new(),
            suspicious: AtomicBool::new(false),
            answered: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            failed: Mutex::default(),
            unsubscribed,
            found_cluster: FoundCluster::default(),
            last_releases: LastReleases::default(),
            channels: Arc::default(),
            task: Mutex::default(),
        }
    }

    /// A second link to the same endpoint. Its task connects it, once started.
    pub(crate) fn another(&self) -> Arc<Self> {
        let (endpoint, unsubscribed) = (self.endpoint.clone(), self.unsubscribed.clone());
        let other = Self::unconnected(endpoint, self.name.clone(), unsubscribed);
        other.closed.store(self.is_closed(), Ordering::Release);
        Arc::new(Self { found_cluster: Arc::clone(&self.found_cluster), ..other })
    }

    /// How scripts publish on this server.
    pub(crate) fn publish(&self) -> Publish {
        if self.unsubscribed.is_some() { Publish::InSlot } else { Publish::Everywhere }
    }

    /// The address of the server, without credentials.
    pub(crate) fn address(&self) -> String {
        let current = self.current.load();
        self.address_at(current.as_ref().and_then(|connection| connection.master.as_ref()))
    }

    /// The same, of the server at the other end of a connection, which may not be the current one any more.
    pub(crate) fn address_of(&self, connection: &Connection) -> String {
        self.address_at(connection.master.as_ref())
    }

    fn address_at(&self, master: Option<&Master>) -> String {
        master.map_or_else(|| self.endpoint.address(), Master::address)
    }

    /// The number of the database.
    pub(crate) fn database(&self) -> i64 {
        self.endpoint.database()
    }

    /// True if sentinels name the server.
    pub(crate) fn has_sentinels(&self) -> bool {
        self.endpoint.master().is_some()
    }

    /// The number of the connection, if there is one.
    pub(crate) fn connection(&self) -> Option<u64> {
        self.current.load().as_ref().map(|connection| connection.number)
    }

    /// The runtime that the connection depends on, if there is one.
    pub(crate) fn runtime(&self) -> Option<Handle> {
        self.current.load().as_ref().map(|connection| connection.runtime.clone())
    }

    /// Gives up a connection whose answers belong to other requests.
    fn mixed_up(&self, connection: &Connection) {
        if !connection.is_retired() {
            tracing::warn!("the lock store answered another request; its connection is dropped");
        }
        self.give_up(connection);
    }

    /// Ends the link; the task ends at its next check.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.drop_connection();
        self.check_now.notify_one();
        self.changed.notify_waiters();
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Decides what an answer, or its absence, says about the command and about the connection.
    pub(crate) fn judge<T>(
        &self,
        connection: &Connection,
        answer: Result<RedisResult<T>, Elapsed>,
    ) -> Result<T, CallError> {
        match answer {
            Err(_) => self.out_of_time(),
            Ok(Err(error)) if is_broken(&error) => {
                self.give_up(connection);
                Err(CallError::Broken(error, self.address_of(connection)))
            }
            Ok(result) => {
                self.suspicious.store(false, Ordering::Relaxed);
                self.answered.store(true, Ordering::Relaxed);
                result.map_err(|error| {
                    self.heed(connection, &error);
                    CallError::Server(error, self.address_of(connection))
                })
            }
        }
    }

    fn out_of_time<T>(&self) -> Result<T, CallError> {
        self.suspect();
        Err(self.late())
    }

    /// The error of a call without an answer.
    pub(crate) fn late(&self) -> CallError {
        CallError::TimedOut { server: self.address(), limit: None }
    }

    /// Has the task send a PING over the connection.
    pub(crate) fn suspect(&self) {
        self.suspicious.store(true, Ordering::Relaxed);
        self.check_now.notify_one();
    }

    /// False while the task connects.
    pub(crate) fn is_connected(&self) -> bool {
        self.current.load().is_some()
    }

    /// Gives up the connection if an error reply says that the server at this address is not the master any more; notes if
    /// it says that the server is a cluster.
    // S-33, S-40.
    pub(crate) fn heed(&self, connection: &Connection, error: &RedisError) {
        match error.code() {
            Some("READONLY" | "MASTERDOWN") => {
                // Callers get this error while there is no connection.
                let failed = server_error(error.clone(), self.address_of(connection));
                *self.failed.lock() = Some(failed);
                self.give_up(connection);
            }
            Some("CROSSSLOT") => self.find_cluster(),
            _ => {}
        }
    }

    /// Retires a connection, so that no answer on it counts, and drops it unless it has been replaced.
    fn give_up(&self, given_up: &Connection) {
        given_up.retire();
        let current = self.current.load_full();
        if current.as_ref().is_some_and(|current| current.number == given_up.number) {
            self.current.compare_and_swap(&current, None);
        }
        self.check_now.notify_one();
    }

    fn drop_connection(&self) {
        if let Some(connection) = self.current.swap(None) {
            connection.retire();
        }
    }

    /// Gives up the connection if the sentinels name another master now.
    fn leave_replaced(&self) {
        let (Some(connection), Some(master)) = (self.current.load_full(), self.endpoint.master())
        else {
            return;
        };
        if connection.master.as_ref().is_some_and(|connected| !connected.is_at(&master)) {
            tracing::info!("the sentinels name another master; connecting to it");
            self.give_up(&connection);
        }
    }

    /// Waits for a connection.
    pub(crate) async fn connected(&self, deadline: Instant) -> Result<Arc<Connection>, CallError> {
        loop {
            if let Some(connection) = self.current.load_full() {
                return Ok(connection);
            }
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Register, then check, then wait.
            changed.as_mut().enable();
            if self.is_closed() {
                return Err(CallError::NotSent);
            }
            let failed = self.failed.lock().clone();
            if let Some(refused) = failed.filter(|error| !error.kind().is_transient()) {
                return Err(CallError::Refused(refused));
            }
            if !self.is_connected() && timeout_at(deadline, changed).await.is_err() {
                return Err(self.away());
            }
        }
    }

    /// Connects for the first time; an error has the reason that the server gives.
    pub(crate) async fn connect_first(self: &Arc<Self>) -> Result<(), StoreError> {
        let connected = self.connect().await;
        let connected = self.endpoint.explained(connected).await;
        if let Err(error) = &connected {
            *self.failed.lock() = Some(error.clone());
        }
        connected
    }

    async fn connect(self: &Arc<Self>) -> Result<(), StoreError> {
        // Zero until the connection is in use; nothing is subscribed before.
        let number = Arc::new(AtomicU64::new(0));
        let (link, number_of_pushes) = (Arc::downgrade(self), Arc::clone(&number));
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(connect_timeout()))
            // Each call has its own deadline.
            .set_response_timeout(None)
            .set_pipeline_buffer_size(1024)
            .set_push_sender(move |push: PushInfo| {
                on_push(&link, number_of_pushes.load(Ordering::Relaxed), push);
                Ok::<_, redis::aio::SendError>(())
            });
        let (mut opened, master) = self.endpoint.connect(&config, connect_timeout()).await?;
        let prepare = preparation(self.publish(), &self.name.text());
        let asking = self.ask_for_cluster(opened.connection.clone());
        let preparing = join(prepare.query_async::<()>(&mut opened.connection), asking);
        let prepared =
            timeout(short_limit(PING_TIMEOUT), preparing).await.map(|(prepared, ())| prepared);
        self.suspicious.store(prepared.is_err(), Ordering::Relaxed);
        if let Ok(Err(error)) = prepared
            && is_broken(&error)
        {
            return Err(connect_error(error, self.address_at(master.as_ref())));
        }
        let (connection, other) = {
            // Under the mutex: of two connections, the one that is in use later has the higher number, whichever opened first.
            let mut failed = self.failed.lock();
            *failed = None;
            let latest = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
            number.store(latest, Ordering::Relaxed);
            let connection = Arc::new(Connection::new(latest, opened, master));
            let other =
                self.current.compare_and_swap(&None::<Arc<_>>, Some(Arc::clone(&connection)));
            (connection, other.is_some())
        };
        if other {
            // The task and the first attempt connect at once; requests may be under way on the other connection.
            return Ok(());
        }
        if self.is_closed() {
            // `close` sets the flag first and drops the connection then, so one of the two drops this one.
            self.drop_connection();
            return Ok(());
        }
        // The sentinels may have named another master while there was no connection to leave.
        self.leave_replaced();
        self.changed.notify_waiters();
        self.replay_subscriptions(&connection).await;
        self.release_again(&connection).await;
        // Only now: a listener that wakes asks the store, and is notified of every later release.
        self.channels.notify_all();
        Ok(())
    }

    /// Starts the task, also when the runtime that ran it has ended, or when calls get no answer because that is not driven
    /// any more.
    pub(crate) fn ensure_task(self: &Arc<Self>) {
        let mut task = self.task.lock();
        let is_stalled = self.suspicious.load(Ordering::Relaxed)
            && Handle::try_current()
                .is_ok_and(|caller| task.as_mut().is_some_and(|task| task.is_stalled(caller.id())));
        if (is_stalled || task.as_ref().is_none_or(Upkeep::is_finished)) && !self.is_closed() {
            let stalled = task.replace(Upkeep::start(Arc::downgrade(self), self.endpoint.clone()));
            drop(task);
            let Some(stalled) = stalled.filter(|_| is_stalled) else { return };
            stalled.abort();
            tracing::debug!(
                "the runtime of a connection to the lock store is not driven; connecting in another"
            );
            if self.runtime().is_some_and(|of_connection| of_connection.id() == stalled.runtime) {
                self.drop_connection();
            }
            // The stalled task would keep the next notification to itself.
            self.check_now.notify_waiters();
            self.check_now.notify_one();
        }
    }

    /// Connects, however long it takes. Returns once there is a connection or the link is closed.
    async fn reconnect(self: &Arc<Self>, pause: &mut ReconnectPause) {
        while !self.is_connected() && !self.is_closed() {
            pause.disconnected();
            self.endpoint.pause(pause.next(), pause.ends_when_reached()).await;
            match self.connect().await {
                Ok(()) => {
                    pause.connected();
                    if let Some(since) = pause.take_warned() {
                        let (server, away) = (self.address(), since.elapsed());
                        tracing::info!(server, ?away, "the lock store answers again");
                    }
                }
                Err(error) => {
                    pause.failed(was_unreached(&error));
                    // The server may be down for good.
                    match pause.warns() {
                        true => tracing::warn!(%error, "cannot connect to the lock store yet"),
                        false => tracing::debug!(%error, "cannot connect to the lock store yet"),
                    }
                    *self.failed.lock() = Some(error);
                }
            }
            // Callers that wait for a connection learn of a refusal at once.
            self.changed.notify_waiters();
        }
    }

    /// The error of a call that was not sent for lack of a connection.
    pub(crate) fn away(&self) -> CallError {
        let failed = self.failed.lock().clone();
        CallError::Away(failed.unwrap_or_else(|| {
            let message = format!("there is no connection to {} yet", self.address());
            StoreError::new(StoreErrorKind::Unavailable, message)
        }))
    }
}

/// True if no further answer will come over the connection.
pub(crate) fn is_broken(error: &RedisError) -> bool {
    error.is_unrecoverable_error() || error.is_io_error()
}

/// Runs inside the connection's driver: must not block.
fn on_push(link: &Weak<Link>, number: u64, push: PushInfo) {
    let Some(link) = link.upgrade() else { return };
    if push.kind == PushKind::Disconnection {
        let current = link.current.load_full();
        if let Some(connection) = current.filter(|connection| connection.number == number) {
            link.give_up(&connection);
        }
    } else if let [Value::BulkString(name), rest @ ..] = &push.data[..]
        && let Ok(name) = std::str::from_utf8(name)
    {
        let message = match rest {
            [Value::BulkString(message), ..] => message,
            _ => &[][..],
        };
        link.on_notice(number, &push.kind, name, message);
    }
}
