//! Messages between clients, on channels that no lock uses.
// S-35.

use redis::{Cmd, Value};
use tokio::time::Instant;

use super::RedisStore;
use crate::error::StoreError;
use crate::store::not_listened;
use crate::store::redis::requests::answers::surprise;
use crate::store::redis::scripts::Publish;
use crate::store::redis::server::errors::needs;

/// The permissions that a channel needs.
pub(crate) const MAY_SUBSCRIBE: &str = "`+subscribe` and the channel, as `&*` does";
const MAY_PUBLISH: &str = "`+publish` and the channel, as `&*` does";
/// The same in a cluster.
pub(crate) const MAY_SUBSCRIBE_IN_SLOT: &str = "`+ssubscribe` and the channel, as `&*` does";
const MAY_PUBLISH_IN_SLOT: &str = "`+spublish` and the channel, as `&*` does";

/// The command that publishes a message.
pub(super) fn publish(publish: Publish, channel: &str, message: &[u8]) -> Cmd {
    let mut cmd = redis::cmd(match publish {
        Publish::Everywhere => "PUBLISH",
        Publish::InSlot => "SPUBLISH",
    });
    cmd.arg(channel).arg(message);
    cmd
}

impl RedisStore {
    /// Waits until the server has confirmed the subscription.
    pub(super) async fn subscribed(
        &self,
        channel: &str,
        deadline: Instant,
    ) -> Result<(), StoreError> {
        if !self.subscriptions.channels.has_callbacks(channel) {
            return Err(not_listened());
        }
        self.subscriptions.ensure_task();
        let subscribed = self.subscriptions.subscribe(channel, deadline).await;
        subscribed.map_err(|error| needs(error, MAY_SUBSCRIBE))
    }

    /// Publishes a message, and returns how many connections received it.
    pub(super) async fn sent(&self, publish: &Cmd, deadline: Instant) -> Result<u32, StoreError> {
        self.link.ensure_task();
        let permission = match self.link.publish() {
            Publish::Everywhere => MAY_PUBLISH,
            Publish::InSlot => MAY_PUBLISH_IN_SLOT,
        };
        match self.link.call(publish, deadline).await.map_err(|error| needs(error, permission))? {
            Value::Int(received) => Ok(u32::try_from(received).unwrap_or(0)),
            other => Err(surprise(&other.into())),
        }
    }
}
