//! Subscribing to channels over a link.

use std::sync::Arc;

use redis::{RedisError, RedisResult};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::{CallError, Connection, Link, Listener, is_broken};
use crate::store::redis::scripts::Publish;
use crate::store::redis::server::errors::kind_of;
use crate::store::{Listening, OnMessage};

impl Link {
    /// Subscribes a channel and waits for the confirmation.
    pub(crate) async fn subscribe(&self, name: &str, deadline: Instant) -> Result<(), CallError> {
        let connection = self.connected(deadline).await?;
        if self.channels.is_confirmed(name, connection.number) {
            return Ok(());
        }
        self.subscribe_on(&connection, name, deadline).await
    }

    /// As [`subscribe`](Self::subscribe), on this connection.
    pub(super) async fn subscribe_on(
        &self,
        connection: &Connection,
        name: &str,
        deadline: Instant,
    ) -> Result<(), CallError> {
        let subscribed = match self.publish() {
            Publish::InSlot => self.subscribe_in_slot(connection, name, deadline).await,
            Publish::Everywhere => {
                let answer = timeout_at(deadline, connection.subscribe(name)).await;
                let subscribed = self.judge(connection, answer);
                if subscribed.is_ok() {
                    self.channels.confirm(name, connection.number);
                }
                subscribed
            }
        };
        if let Err(CallError::Server(error, _)) = &subscribed {
            self.note_refusal(connection, name, error);
        }
        subscribed
    }

    /// Takes note of the answer to a subscription that nothing waits for.
    pub(super) fn subscribed(&self, connection: &Connection, name: &str, answer: RedisResult<()>) {
        match answer {
            Ok(()) => self.channels.confirm(name, connection.number),
            // The next connection subscribes again.
            Err(error) if is_broken(&error) => {}
            Err(error) => self.note_refusal(connection, name, &error),
        }
    }

    fn note_refusal(&self, connection: &Connection, name: &str, error: &RedisError) {
        if is_refusal(error) && self.channels.refuse(name, connection.number) {
            tracing::debug!(%error, lock.channel = name, "the server refuses a subscription");
        }
    }

    /// Calls a function with each message of the channel. The task subscribes it.
    pub(crate) fn listen(self: &Arc<Self>, name: &str, on_message: OnMessage) -> Listening {
        let listening = self.channels.call(name, on_message);
        if Handle::try_current().is_ok() {
            self.ensure_task();
        }
        self.check_now.notify_one();
        listening
    }

    /// Listens to a channel that is subscribed already, and there to the messages for that waiter.
    pub(crate) fn listen_if_subscribed(
        &self,
        name: &str,
        waiter: Option<u64>,
    ) -> Option<(watch::Receiver<u64>, Listener)> {
        self.channels.listen_if_confirmed(name, waiter, self.connection()?)
    }

    /// True if this process receives what is published on the channel.
    pub(crate) fn is_subscribed(&self, name: &str) -> bool {
        self.connection().is_some_and(|number| self.channels.is_confirmed(name, number))
    }

    /// True if the server refused to subscribe the channel on the connection that there is now.
    pub(crate) fn is_refused(&self, name: &str) -> bool {
        self.connection().is_some_and(|number| self.channels.is_refused(name, number))
    }
}

/// True if the server would answer the same again. In a cluster it names another node if it does not have the slot.
fn is_refusal(error: &RedisError) -> bool {
    !kind_of(error).is_transient() && !matches!(error.code(), Some("MOVED" | "ASK"))
}
