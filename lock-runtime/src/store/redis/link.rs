//! The connection to one server, kept for ever.
//!
//! In place of the client library's connection manager, which does not reconnect after a time-out,
//! gives up after its retries, and never recovers from a refused password. Here one task reconnects
//! on any error, with random pauses so that a fleet does not come back in lock-step, subscribes every
//! channel anew and wakes every listener (S-15).
//!
//! A call says what is known of its effect: nothing was sent, the outcome is unknown, or the server
//! has answered. Only the first may be repeated blindly.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures_util::stream::{self, StreamExt};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, PushInfo, PushKind, RedisError, RedisResult, Value,
};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, timeout, timeout_at};

mod in_cluster;

use self::in_cluster::transmit;
pub(super) use self::in_cluster::{Notices, asking};
use super::channels::Channels;
use super::errors::connect_error;
use super::script::load_all;
use crate::error::StoreError;

/// How long a connection may take to be made.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// First and longest pause between two attempts to connect.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How often the task looks after channels and an idle connection.
const TICK: Duration = Duration::from_secs(1);

/// After how long without an answer a connection that carries subscriptions is asked for a sign of
/// life, and how long that may take.
const IDLE: Duration = Duration::from_secs(5);
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// What is known of a call that failed.
#[derive(Debug)]
pub(super) enum CallError {
    /// There was no connection before the deadline: nothing ran.
    NotSent,
    /// There was no answer before the deadline: it may have run.
    TimedOut,
    /// The connection broke before the answer: it may have run.
    Broken(RedisError),
    /// The server answered with an error.
    Server(RedisError),
    /// The server refuses new connections for a reason that waiting does not mend: nothing ran.
    Refused(StoreError),
}

impl CallError {
    /// For a preparatory call: whatever became of it, the call it prepares has not run.
    pub(super) fn nothing_ran(self) -> Self {
        match self {
            Self::TimedOut | Self::Broken(_) => Self::NotSent,
            other => other,
        }
    }
}

/// One connection's life.
pub(super) struct Live {
    number: u64,
    connection: MultiplexedConnection,
}

impl Live {
    /// Hands one command to the connection when first polled, and resolves to its answer. Errors
    /// inside an answer of several parts stay where they are.
    pub(super) fn send(&self, cmd: Cmd) -> impl Future<Output = RedisResult<Value>> + Send + use<> {
        let mut connection = self.connection.clone();
        async move {
            match transmit(&mut connection, &cmd).await? {
                Value::ServerError(error) => Err(error.into()),
                answer => Ok(answer),
            }
        }
    }
}

/// See the module.
pub(super) struct Link {
    client: Client,
    /// Empty while there is no connection.
    live: ArcSwapOption<Live>,
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
    /// Why the server refused the last attempt to connect, if it was more than being away.
    refused: Mutex<Option<StoreError>>,
    notices: Notices,
    pub(super) channels: Arc<Channels>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Link {
    /// A link that is not connected yet.
    pub(super) fn new(client: Client) -> Arc<Self> {
        Self::made(client, false, Notices::Everywhere)
    }

    /// Connects for the first time.
    pub(super) async fn connect(client: Client) -> RedisResult<Arc<Self>> {
        let link = Self::new(client);
        link.open().await?;
        link.ensure_task();
        Ok(link)
    }

    /// A second connection to the same server. Its task makes it, once started.
    pub(super) fn another(&self) -> Arc<Self> {
        let closed = self.closed.load(Ordering::Acquire);
        Self::made(self.client.clone(), closed, self.notices.clone())
    }

    fn made(client: Client, closed: bool, notices: Notices) -> Arc<Self> {
        Arc::new(Self {
            client,
            live: ArcSwapOption::empty(),
            connections: AtomicU64::new(0),
            changed: Notify::new(),
            look: Notify::new(),
            suspicious: AtomicBool::new(false),
            answered: AtomicBool::new(false),
            closed: AtomicBool::new(closed),
            refused: Mutex::default(),
            notices,
            channels: Arc::default(),
            task: Mutex::default(),
        })
    }

    /// The number of the connection, if there is one.
    pub(super) fn connection(&self) -> Option<u64> {
        self.live.load().as_ref().map(|live| live.number)
    }

    /// Sends one command and waits for its answer.
    pub(super) async fn call(&self, cmd: &Cmd, deadline: Instant) -> Result<Value, CallError> {
        let live = self.connected(deadline).await?;
        let mut connection = live.connection.clone();
        // An error reply comes as a value that is one.
        let send = async { transmit(&mut connection, cmd).await?.extract_error() };
        // In line for the connection at the first poll, however much this task has done (S-21).
        let answer = timeout_at(deadline, unconstrained(send)).await;
        self.judge(&live, answer)
    }

    /// Subscribes a channel and waits for the confirmation.
    pub(super) async fn subscribe(&self, name: &str, deadline: Instant) -> Result<(), CallError> {
        let live = self.connected(deadline).await?;
        if self.channels.is_confirmed(name, live.number) {
            return Ok(());
        }
        if self.notices.are_in_slot() {
            return self.subscribe_in_slot(&live, name, deadline).await;
        }
        let answer = timeout_at(deadline, live.connection.clone().subscribe(name)).await;
        self.judge(&live, answer)?;
        self.channels.confirm(name, live.number);
        Ok(())
    }

    /// True if this process hears of what is published on the channel.
    pub(super) fn hears(&self, name: &str) -> bool {
        let live = self.live.load();
        live.as_ref().is_some_and(|live| self.channels.is_confirmed(name, live.number))
    }

    /// Ends the link; the task notices at its next look.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.live.store(None);
        self.look.notify_one();
        self.changed.notify_waiters();
    }

    /// What an answer, or its absence, says about the command and about the connection.
    pub(super) fn judge<T>(
        &self,
        live: &Live,
        answer: Result<RedisResult<T>, tokio::time::error::Elapsed>,
    ) -> Result<T, CallError> {
        match answer {
            Err(_) => {
                self.suspect();
                Err(CallError::TimedOut)
            }
            Ok(Err(error)) if error.is_unrecoverable_error() || error.is_io_error() => {
                self.give_up(live.number);
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
    pub(super) fn suspect(&self) {
        self.suspicious.store(true, Ordering::Relaxed);
        self.look.notify_one();
    }

    /// False while a connection is being made.
    pub(super) fn is_connected(&self) -> bool {
        self.live.load().is_some()
    }

    /// What an error reply says about the connection: whoever answers at this address may not be
    /// whom we connected to any more.
    pub(super) fn heed(&self, live: &Live, error: &RedisError) {
        if matches!(error.code(), Some("READONLY" | "MASTERDOWN")) {
            self.give_up(live.number);
        }
    }

    /// Drops a connection, unless another has taken its place already.
    fn give_up(&self, number: u64) {
        let live = self.live.load_full();
        if live.as_ref().is_some_and(|live| live.number == number) {
            self.live.compare_and_swap(&live, None);
        }
        self.look.notify_one();
    }

    /// The connection, as soon as there is one.
    pub(super) async fn connected(&self, deadline: Instant) -> Result<Arc<Live>, CallError> {
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
            if let Some(refused) = self.refused().clone() {
                return Err(CallError::Refused(refused));
            }
            if self.live.load().is_none() && timeout_at(deadline, changed).await.is_err() {
                return Err(CallError::NotSent);
            }
        }
    }

    pub(super) async fn open(self: &Arc<Self>) -> RedisResult<()> {
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
        let connecting = self.client.get_multiplexed_async_connection_with_config(&config);
        let mut connection = timeout(CONNECT_TIMEOUT, connecting)
            .await
            .map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))??;
        let _ = timeout(PING_TIMEOUT, load_all(&mut connection, &self.notices)).await;
        self.suspicious.store(false, Ordering::Relaxed);
        let live = Arc::new(Live { number, connection });
        if self.closed.load(Ordering::Acquire) {
            return Ok(());
        }
        self.live.store(Some(Arc::clone(&live)));
        self.changed.notify_waiters();
        self.replay_subscriptions(&live).await;
        // Only now: whoever is woken asks the store, and hears of what happens after that.
        self.channels.notice_all();
        Ok(())
    }

    async fn replay_subscriptions(&self, live: &Live) {
        let subscribe = |name: String| async move {
            if self.notices.are_in_slot() {
                // One that another node has by now is asked for there.
                let deadline = Instant::now() + PING_TIMEOUT;
                let _ = self.subscribe_in_slot(live, &name, deadline).await;
                return;
            }
            let confirmed = timeout(PING_TIMEOUT, live.connection.clone().subscribe(&name)).await;
            if matches!(confirmed, Ok(Ok(()))) {
                self.channels.confirm(&name, live.number);
            }
        };
        let all = stream::iter(self.channels.names()).for_each_concurrent(256, subscribe);
        if timeout(CONNECT_TIMEOUT, all).await.is_err() {
            self.give_up(live.number);
        }
    }

    /// Starts the task, also when the runtime that ran it is gone.
    pub(super) fn ensure_task(self: &Arc<Self>) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if task.as_ref().is_none_or(JoinHandle::is_finished) && !self.closed.load(Ordering::Acquire)
        {
            *task = Some(tokio::spawn(supervise(Arc::downgrade(self))));
        }
    }

    /// Makes a connection, however long it takes; returns once there is one or none is wanted.
    async fn reconnect(self: &Arc<Self>) {
        let mut pause = FIRST_PAUSE;
        while self.live.load().is_none() && !self.closed.load(Ordering::Acquire) {
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            let error = self.open().await.err().map(connect_error);
            if let Some(error) = &error {
                tracing::warn!(%error, "cannot connect to the lock store yet");
            }
            *self.refused() = error.filter(|error| !error.kind().is_transient());
            // Whoever waits for a connection learns of a refusal at once.
            self.changed.notify_waiters();
        }
    }

    fn refused(&self) -> MutexGuard<'_, Option<StoreError>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks an idle or suspicious connection for a sign of life.
    async fn check(&self, idle_for: &mut Duration) {
        let Some(live) = self.live.load_full() else { return };
        let suspicious = self.suspicious.load(Ordering::Relaxed);
        if self.answered.swap(false, Ordering::Relaxed) && !suspicious {
            *idle_for = Duration::ZERO;
            return;
        }
        *idle_for += TICK;
        if !suspicious && (*idle_for < IDLE || !self.channels.any()) {
            return;
        }
        *idle_for = Duration::ZERO;
        let ping = redis::cmd("PING");
        let mut connection = live.connection.clone();
        let answer = timeout(PING_TIMEOUT, connection.send_packed_command(&ping)).await;
        let silent = answer.is_err();
        if self.judge(&live, answer).is_err() && silent {
            self.give_up(live.number);
        }
    }

    /// Ends subscriptions that nobody uses any more, with one command for all of them: a connection
    /// that does not answer must not keep the task from replacing it.
    async fn unsubscribe_stale(&self) {
        let Some(live) = self.live.load_full() else { return };
        let stale = self.channels.take_stale();
        if stale.is_empty() {
            return;
        }
        let left = timeout(PING_TIMEOUT, self.unsubscribe(&live, &stale)).await;
        let answered = self.judge(&live, left).is_ok();
        for name in stale {
            if !self.channels.settle(&name) && answered {
                // The two commands may have crossed. Without an answer a new connection does this.
                let deadline = Instant::now() + PING_TIMEOUT;
                if self.subscribe(&name, deadline).await.is_err() {
                    return self.give_up(live.number);
                }
                self.channels.notice(&name);
            }
        }
    }
}

/// The task: reconnects, looks after the connection, and ends with the link.
async fn supervise(link: Weak<Link>) {
    let mut idle_for = Duration::ZERO;
    loop {
        let Some(link) = link.upgrade() else { return };
        link.reconnect().await;
        if link.closed.load(Ordering::Acquire) {
            return;
        }
        let _ = timeout(TICK, link.look.notified()).await;
        link.check(&mut idle_for).await;
        link.unsubscribe_stale().await;
    }
}

/// Runs inside the connection's driver: must not block.
fn on_push(link: &Weak<Link>, number: u64, push: PushInfo) {
    let Some(link) = link.upgrade() else { return };
    match push.kind {
        PushKind::Disconnection => link.give_up(number),
        _ => {
            if let Some(Value::BulkString(name)) = push.data.first()
                && let Ok(name) = std::str::from_utf8(name)
            {
                link.on_notice(number, &push.kind, name);
            }
        }
    }
}
