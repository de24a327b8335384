//! One connection's life.

use std::future::pending;
use std::io;
use std::pin::pin;

use futures_util::future::{Either, select};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult, Value};
use tokio::sync::watch;

use super::link::transmit;
use super::sentinel::Named;

/// See the module.
pub(super) struct Live {
    pub(super) number: u64,
    pub(super) connection: MultiplexedConnection,
    /// Where the server may be replaced by another while it still answers.
    mortal: Option<Mortal>,
}

struct Mortal {
    server: Named,
    retired: watch::Sender<bool>,
}

impl Live {
    /// A connection to what stays the same server, or to the one that sentinels have named.
    pub(super) fn new(
        number: u64,
        connection: MultiplexedConnection,
        server: Option<Named>,
    ) -> Self {
        let mortal = server.map(|server| Mortal { server, retired: watch::Sender::new(false) });
        Self { number, connection, mortal }
    }

    /// True if this is a server that sentinels named, and `now` is another.
    pub(super) fn is_replaced_by(&self, now: &Named) -> bool {
        self.mortal.as_ref().is_some_and(|mortal| !mortal.server.is_at(now))
    }

    /// From here on no answer counts: whatever is under way fails, as if the connection had broken.
    /// The server may still think itself the master, and grant.
    pub(super) fn retire(&self) {
        if let Some(mortal) = &self.mortal {
            mortal.retired.send_replace(true);
        }
    }

    /// Hands one command to the connection when first polled, and resolves to its answer. Errors
    /// inside an answer of several parts stay where they are.
    pub(super) fn send(&self, cmd: Cmd) -> impl Future<Output = RedisResult<Value>> + Send + use<> {
        let mut connection = self.connection.clone();
        let retired = self.retired();
        async move {
            let answer = unless(retired, transmit(&mut connection, &cmd)).await?;
            match answer {
                Value::ServerError(error) => Err(error.into()),
                answer => Ok(answer),
            }
        }
    }

    /// Sends one command; any error inside its answer is one of the command.
    pub(super) async fn ask(&self, cmd: &Cmd) -> RedisResult<Value> {
        let mut connection = self.connection.clone();
        let retired = self.retired();
        unless(retired, transmit(&mut connection, cmd)).await?.extract_error()
    }

    /// Subscribes a channel, which is done once the server has confirmed it.
    pub(super) async fn subscribe(&self, name: &str) -> RedisResult<()> {
        let mut connection = self.connection.clone();
        unless(self.retired(), connection.subscribe(name)).await
    }

    fn retired(&self) -> Option<watch::Receiver<bool>> {
        self.mortal.as_ref().map(|mortal| mortal.retired.subscribe())
    }
}

/// The answer, unless it comes when the connection has been retired or does not come before that.
async fn unless<T>(
    retired: Option<watch::Receiver<bool>>,
    answer: impl Future<Output = RedisResult<T>>,
) -> RedisResult<T> {
    let Some(mut retired) = retired else { return answer.await };
    let watched = retired.clone();
    let until_retired = async {
        if retired.wait_for(|retired| *retired).await.is_err() {
            // The link has let go of the connection for another reason: it decides by itself.
            pending::<()>().await;
        }
    };
    // The command goes out first, as ever; what has come back is then looked at again.
    match select(pin!(answer), pin!(until_retired)).await {
        Either::Left((answer, _)) if !*watched.borrow() => answer,
        _ => Err(io::Error::new(
            io::ErrorKind::ConnectionAborted,
            "the sentinels have named another server",
        )
        .into()),
    }
}
