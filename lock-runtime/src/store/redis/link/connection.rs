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

use super::in_cluster::transmit;
use crate::store::redis::endpoint::sentinel::Master;

/// A connection, from its handshake until it is retired.
pub(crate) struct Connection {
    pub(crate) number: u64,
    connection: MultiplexedConnection,
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
    pub(super) fn new(
        number: u64,
        connection: MultiplexedConnection,
        master: Option<Master>,
    ) -> Self {
        let runtime = Handle::current();
        Self { number, connection, runtime, master, retirement: Arc::default() }
    }

    /// Retires the connection: all calls under way fail, as if it had broken.
    pub(crate) fn retire(&self) {
        self.retirement.is_over.store(true, Ordering::SeqCst);
        self.retirement.changed.notify_waiters();
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retirement.is_over.load(Ordering::SeqCst)
    }

    /// Sends one command at the first poll and resolves to its answer. Errors inside an answer of several parts stay
    /// there.
    pub(crate) fn send(&self, cmd: Cmd) -> impl Future<Output = RedisResult<Value>> + Send + use<> {
        let mut connection = self.connection.clone();
        let retirement = Arc::clone(&self.retirement);
        async move {
            let answer = pin!(transmit(&mut connection, &cmd));
            unless_refused(retirement.before(answer).await?)
        }
    }

    /// As [`send`](Self::send), for a borrowed command.
    pub(crate) async fn ask(&self, cmd: &Cmd) -> RedisResult<Value> {
        let mut connection = self.connection.clone();
        let answer = pin!(transmit(&mut connection, cmd));
        unless_refused(self.retirement.before(answer).await?)
    }

    /// Subscribes a channel and waits for the confirmation.
    pub(crate) async fn subscribe(&self, name: &str) -> RedisResult<()> {
        let mut connection = self.connection.clone();
        self.retirement.before(pin!(connection.subscribe(name))).await
    }

    /// Ends subscriptions.
    pub(crate) async fn unsubscribe(&self, names: &[String]) -> RedisResult<()> {
        let mut connection = self.connection.clone();
        self.retirement.before(pin!(connection.unsubscribe(names))).await
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

/// The error of a call on a connection that was retired.
fn given_up() -> RedisError {
    let message = "the connection was given up before the answer came";
    io::Error::new(io::ErrorKind::ConnectionAborted, message).into()
}
