//! One connection's life.
//!
//! A connection that is given up is retired first: from then on no answer on it counts, and what is under
//! way on it fails at once. A server that was silent may have been replaced meanwhile without knowing
//! it, and would still grant what it was asked for before.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::{Either, select};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, RedisResult, Value};
use tokio::sync::Notify;

use crate::store::redis::endpoint::sentinel::Named;
use crate::store::redis::link::transmit;

/// See the module.
pub(crate) struct Connection {
    pub(crate) number: u64,
    connection: MultiplexedConnection,
    /// What sentinels named, where the server may be replaced by another while it still answers.
    server: Option<Named>,
    retirement: Arc<Retirement>,
}

/// Whether a connection has been retired, and what tells those who wait for an answer on it.
#[derive(Default)]
struct Retirement {
    retired: AtomicBool,
    told: Notify,
}

impl Connection {
    /// A connection to what stays the same server, or to the one that sentinels have named.
    pub(crate) fn new(
        number: u64,
        connection: MultiplexedConnection,
        server: Option<Named>,
    ) -> Self {
        Self { number, connection, server, retirement: Arc::default() }
    }

    /// What sentinels named, if they did.
    pub(crate) fn server(&self) -> Option<&Named> {
        self.server.as_ref()
    }

    /// True if this is a server that sentinels named, and `now` is another.
    pub(crate) fn is_replaced_by(&self, now: &Named) -> bool {
        self.server.as_ref().is_some_and(|server| !server.is_at(now))
    }

    /// From here on no answer counts: whatever is under way fails, as if the connection had broken.
    pub(crate) fn retire(&self) {
        self.retirement.retired.store(true, Ordering::SeqCst);
        self.retirement.told.notify_waiters();
    }

    /// True if no answer counts any more.
    pub(crate) fn is_retired(&self) -> bool {
        self.retirement.is_over()
    }

    /// Hands one command to the connection when first polled, and resolves to its answer. Errors
    /// inside an answer of several parts stay where they are.
    pub(crate) fn send(&self, cmd: Cmd) -> impl Future<Output = RedisResult<Value>> + Send + use<> {
        let mut connection = self.connection.clone();
        let retirement = Arc::clone(&self.retirement);
        async move { unless_refused(retirement.before(transmit(&mut connection, &cmd)).await?) }
    }

    /// As [`send`](Self::send), for a command that is lent.
    pub(crate) async fn ask(&self, cmd: &Cmd) -> RedisResult<Value> {
        let mut connection = self.connection.clone();
        unless_refused(self.retirement.before(transmit(&mut connection, cmd)).await?)
    }

    /// Subscribes a channel, which is done once the server has confirmed it.
    pub(crate) async fn subscribe(&self, name: &str) -> RedisResult<()> {
        let mut connection = self.connection.clone();
        self.retirement.before(connection.subscribe(name)).await
    }

    /// Ends subscriptions.
    pub(crate) async fn unsubscribe(&self, names: &[String]) -> RedisResult<()> {
        let mut connection = self.connection.clone();
        self.retirement.before(connection.unsubscribe(names)).await
    }
}

impl Retirement {
    fn is_over(&self) -> bool {
        self.retired.load(Ordering::SeqCst)
    }

    /// The answer, unless the connection is retired before it comes.
    async fn before<T>(&self, answer: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
        // Made before the look, or what happens between the two would be missed.
        let told = self.told.notified();
        if self.is_over() {
            return Err(given_up());
        }
        // The command goes out first; what has come back is then looked at again.
        match select(pin!(answer), pin!(told)).await {
            Either::Left((answer, _)) if !self.is_over() => answer,
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

/// Why an answer does not count.
pub(crate) fn given_up() -> RedisError {
    let message = "the connection was given up before the answer came";
    io::Error::new(io::ErrorKind::ConnectionAborted, message).into()
}
