//! Messages between clients, on channels that no lock uses.
// S-35.

use std::borrow::Cow;

use redis::{Cmd, Value};
use tokio::time::Instant;

use super::RedisStore;
use crate::error::StoreError;
use crate::store::not_listened;
use crate::store::redis::requests::answers::surprise;
use crate::store::redis::scripts::Publish;

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
    /// The channel as the server has it. All databases share the channels of their server, but messages are about the locks of
    /// one, so its number is part of the name. Database 0 adds none, as older clients know it.
    pub(super) fn own_channel<'a>(&self, channel: &'a str) -> Cow<'a, str> {
        match self.link.database() {
            0 => Cow::Borrowed(channel),
            database => Cow::Owned(format!("{channel}:db{database}")),
        }
    }

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
        Ok(self.subscriptions.subscribe(channel, deadline).await?)
    }

    /// Publishes a message, and returns how many connections received it.
    pub(super) async fn sent(&self, publish: &Cmd, deadline: Instant) -> Result<u32, StoreError> {
        self.link.ensure_task();
        match self.link.call(publish, deadline).await? {
            Value::Int(received) => Ok(u32::try_from(received).unwrap_or(0)),
            other => Err(surprise(&other.into())),
        }
    }
}
