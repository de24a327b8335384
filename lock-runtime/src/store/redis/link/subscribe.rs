//! Subscribing to channels over a link.

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::{CallError, Link, Listener};
use crate::store::redis::scripts::Publish;

impl Link {
    /// Subscribes a channel and waits for the confirmation.
    pub(crate) async fn subscribe(&self, name: &str, deadline: Instant) -> Result<(), CallError> {
        let connection = self.connected(deadline).await?;
        if self.channels.is_confirmed(name, connection.number) {
            return Ok(());
        }
        if self.publish() == Publish::InSlot {
            return self.subscribe_in_slot(&connection, name, deadline).await;
        }
        let answer = timeout_at(deadline, connection.subscribe(name)).await;
        self.judge(&connection, answer)?;
        self.channels.confirm(name, connection.number);
        Ok(())
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
}
