//! One connection, from its handshake until it is retired.
//!
//! Once a connection is retired, no answer on it counts, and all calls under way on it fail at once. A server that
//! was silent may have been replaced meanwhile without knowing it, and would still grant earlier requests.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::{Either, select};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, RedisResult, Value};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::in_cluster::{is_asking, transmit};
use crate::store::redis::endpoint::sentinel::Master;
use crate::store::redis::server::shared_stream::TaskCall;
use crate::store::redis::server::{Opened, Shared};

/// A connection, from its handshake until it is retired.
pub(crate) struct Connection {
    pub(crate) number: u64,
    connection: MultiplexedConnection,
    shared: Option<Shared>,
    /// Runs the task that reads the answers.
    pub(super) runtime: Handle,
    /// The master that the sentinels named, if there are sentinels.
    pub(super) master: Option<Master>,
    retirement: Arc<Retirement>,
}

#[derive(Default)]
struct Retirement {
    is_over: AtomicBool,
    /// Notifies the calls under way.
    changed: Notify,
}

impl Connection {
    pub(super) fn new(number: u64, opened: Opened, master: Option<Master>) -> Self {
        let Opened { connection, shared } = opened;
        let runtime = Handle::current();
        Self { number, connection, shared, runtime, master, retirement: Arc::default() }
    }

    /// Retires the connection: all calls under way fail, as if it had broken.
    pub(crate) fn retire(&self) {
        self.retirement.is_over.store(true, Ordering::SeqCst);
        self.retirement.changed.notify_waiters();
        if let Some(shared) = &self.shared {
            shared.stream.fail(GIVEN_UP);
        }
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retirement.is_over.load(Ordering::SeqCst)
    }

    /// Sends one command at the first poll and resolves to its answer. Errors inside an answer of several parts stay
    /// there.
    pub(crate) fn send(&self, cmd: Cmd) -> impl Future<Output = RedisResult<Value>> + Send + use<> {
        let mut connection = self.connection.clone();
        let retirement = Arc::clone(&self.retirement);
        let shared = self.shared.clone();
        async move {
            let under_way = call(shared.as_ref());
            let answer = retirement.before(pin!(transmit(&mut connection, &cmd))).await;
            answered(under_way);
            unless_refused(answer?)
        }
    }

    /// As [`send`](Self::send), for a borrowed command.
    pub(crate) async fn ask(&self, cmd: &Cmd) -> RedisResult<Value> {
        let mut connection = self.connection.clone();
        let under_way = call(self.shared.as_ref());
        let answer = self.retirement.before(pin!(transmit(&mut connection, cmd))).await;
        answered(under_way);
        unless_refused(answer?)
    }

    /// Sends `ASKING` and returns its answer. It applies to the next command, which must not be another task's: one
    /// follows in the same write.
    pub(crate) async fn ask_asking(&self) -> RedisResult<Value> {
        let mut connection = self.connection.clone();
        let mut pair = redis::pipe();
        pair.cmd("ASKING").cmd("PING");
        let under_way = call(self.shared.as_ref());
        let sent = pin!(connection.send_packed_commands(&pair, 0, 2));
        let answers = self.retirement.before(sent).await;
        answered(under_way);
        unless_refused(answers?.into_iter().next().unwrap_or(Value::Nil))
    }

    /// True if a request may be sent [alone](Self::ask_alone) now.
    pub(crate) fn is_quiet(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.stream.is_quiet())
    }

    /// Sends what `write` writes past the client library's task, and resolves to what `write` returned and to the answer,
    /// or to no answer by `deadline`. `None` if it has to go through the task; nothing was sent then.
    pub(crate) async fn ask_alone<T>(
        &self,
        deadline: Instant,
        write: impl FnOnce(&mut Vec<u8>) -> T,
    ) -> Option<(T, Option<RedisResult<Value>>)> {
        let shared = self.shared.as_ref().filter(|_| !is_asking())?;
        let (written, exchange) = shared.stream.exchange(write)?;
        let mut answer = None;
        if !self.is_retired() {
            answer = timeout_at(deadline, exchange).await.ok();
        }
        if self.is_retired() {
            answer = Some(Err(given_up()));
        }
        Some((written, answer.map(|answer| unless_refused(answer?))))
    }

    /// Subscribes a channel and waits for the confirmation.
    pub(crate) async fn subscribe(&self, name: &str) -> RedisResult<()> {
        let mut connection = self.connection.clone();
        let under_way = call(self.shared.as_ref());
        let confirmed = self.retirement.before(pin!(connection.subscribe(name))).await;
        answered(under_way);
        confirmed
    }

    /// Ends subscriptions.
    pub(crate) async fn unsubscribe(&self, names: &[String]) -> RedisResult<()> {
        let mut connection = self.connection.clone();
        let under_way = call(self.shared.as_ref());
        let confirmed = self.retirement.before(pin!(connection.unsubscribe(names))).await;
        answered(under_way);
        confirmed
    }
}

/// Counts a call that the client library's task sends as under way, until it is answered or dropped. A future around the
/// call would keep it twice.
fn call(shared: Option<&Shared>) -> Option<TaskCall<'_>> {
    shared.map(|shared| shared.stream.call())
}

/// The call has ended by its answer; or its connection was retired, and then carries no other.
fn answered(call: Option<TaskCall<'_>>) {
    if let Some(call) = call {
        call.answered();
    }
}

impl Retirement {
    /// Fails if the connection is retired before the answer comes.
    async fn before<T, F>(&self, answer: Pin<&mut F>) -> RedisResult<T>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let is_over = || self.is_over.load(Ordering::SeqCst);
        // Register, then check, then wait.
        let changed = self.changed.notified();
        if is_over() {
            return Err(given_up());
        }
        // The command is sent first, and its answer checked again.
        match select(answer, pin!(changed)).await {
            Either::Left((answer, _)) if !is_over() => answer,
            _ => Err(given_up()),
        }
    }
}

/// The answer to a command, or the error that the server answered with.
pub(crate) fn unless_refused(answer: Value) -> RedisResult<Value> {
    match answer {
        Value::ServerError(error) => Err(error.into()),
        answer => Ok(answer),
    }
}

const GIVEN_UP: &str = "the connection was given up before the answer came";

/// The error of a call on a connection that was retired.
fn given_up() -> RedisError {
    io::Error::new(io::ErrorKind::ConnectionAborted, GIVEN_UP).into()
}
