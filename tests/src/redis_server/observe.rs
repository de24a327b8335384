//! What a test asks of a server: command counts, subscribers, messages, and cutting clients off.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use redis::Client;
use tokio::task::AbortHandle;

use super::{RedisServer, percent_encoded, socket_url};
use crate::eventually::eventually;

/// How long subscribers may take to come or go.
const SUBSCRIBE_BOUND: Duration = Duration::from_secs(10);

/// How long replicas may take to come or go.
const REPLICA_BOUND: Duration = Duration::from_secs(20);

/// A class of a server's clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientType {
    /// Clients that are subscribed to nothing.
    Normal,
    /// Clients with at least one subscription.
    PubSub,
    /// Replicas of the server, which come back by themselves.
    Replica,
}

impl RedisServer {
    /// How often each command was called since the start or the last
    /// [`reset_stats`](Self::reset_stats), by name (`evalsha`, `client|kill`).
    ///
    /// Calls out of a script count as calls of their commands, and so do those of the side channel.
    pub async fn command_calls(&self) -> BTreeMap<String, u64> {
        let info: String = self.client.get(&["INFO", "commandstats"]).await;
        info.lines().filter_map(command_calls).collect()
    }

    /// How often the server has answered with an error of this code since the start or the last [`reset_stats`](Self::reset_stats).
    ///
    /// Panics when it does not tell.
    pub async fn error_replies(&self, code: &str) -> u64 {
        let info: String = self.client.get(&["INFO", "errorstats"]).await;
        let field = format!("errorstat_{code}:count=");
        let count = info.lines().find_map(|line| line.strip_prefix(&field));
        count.map_or(0, |count| count.parse().expect("a count is a number"))
    }

    /// How often the server has refused to run a command since then.
    ///
    /// Panics when it does not tell.
    pub async fn rejected_calls(&self, command: &str) -> u64 {
        let info: String = self.client.get(&["INFO", "commandstats"]).await;
        let line = info.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:")));
        let count = line.and_then(|line| line.split_once("rejected_calls=")?.1.split(',').next());
        count.map_or(0, |count| count.parse().expect("a count is a number"))
    }

    /// Sets all counts of [`command_calls`](Self::command_calls) to none.
    pub async fn reset_stats(&self) {
        self.client.cmd(&["CONFIG", "RESETSTAT"]).await;
    }

    /// Cuts the connections of all clients of one class, except the side channel's, and says how
    /// many there were.
    pub async fn client_kill(&self, which: ClientType) -> u64 {
        let name = match which {
            ClientType::Normal => "normal",
            ClientType::PubSub => "pubsub",
            ClientType::Replica => "replica",
        };
        self.client.get(&["CLIENT", "KILL", "TYPE", name]).await
    }

    /// Waits until `count` replicas follow this server, have all its data and acknowledge more.
    ///
    /// Panics when that is not so within 20 s.
    pub async fn wait_for_replicas(&self, count: usize) {
        let what = format!("{count} replicas");
        eventually(REPLICA_BOUND, &what, async || {
            // A message is sent on to replicas and leaves nothing behind.
            self.client.cmd(&["PUBLISH", "lock-tests", ""]).await;
            let info: String = self.client.get(&["INFO", "replication"]).await;
            // Offset zero is a replica that was sent the data and has yet to load them.
            let ready = |line: &&str| line.contains("state=online") && !line.contains("offset=0,");
            info.lines().filter(ready).count() >= count
        })
        .await;
    }

    /// How many clients are subscribed to `channel`, with the [`MessageLog`]s of this test.
    pub async fn pubsub_numsub(&self, channel: &str) -> u64 {
        let (_, count): (String, u64) = self.client.get(&["PUBSUB", "NUMSUB", channel]).await;
        count
    }

    /// Waits until exactly `count` clients are subscribed to `channel`.
    ///
    /// Panics when that is not so within 10 s.
    pub async fn wait_for_subscribers(&self, channel: &str, count: u64) {
        let what = format!("{count} subscribers of {channel}");
        eventually(SUBSCRIBE_BOUND, &what, async || self.pubsub_numsub(channel).await == count)
            .await;
    }

    /// Records what is published on `channel` from now on.
    ///
    /// Panics when the server does not take the subscription.
    pub async fn subscribe_log(&self, channel: &str) -> MessageLog {
        // Over the socket, which no TLS is in front of.
        let password = self.password.as_deref().map(percent_encoded);
        let url = socket_url(&self.socket(), password.as_deref());
        let client = Client::open(url).expect("a server's own address is valid");
        let mut pubsub =
            client.get_async_pubsub().await.expect("the server of this test takes connections");
        pubsub.subscribe(channel).await.expect("the server of this test takes subscriptions");
        let payloads = Arc::<Mutex<Vec<String>>>::default();
        let recorded = payloads.clone();
        let mut messages = pubsub.into_on_message();
        let recorder = tokio::spawn(async move {
            while let Some(message) = messages.next().await {
                let payload = String::from_utf8_lossy(message.get_payload_bytes()).into_owned();
                recorded.lock().unwrap_or_else(PoisonError::into_inner).push(payload);
            }
        });
        MessageLog { channel: channel.to_owned(), payloads, recorder: recorder.abort_handle() }
    }
}

/// The messages that were published on a channel while this exists, in their order.
///
/// Recorded by a subscriber of its own over RESP2, which [`RedisServer::client_kill`] of
/// [`ClientType::PubSub`] ends.
#[derive(Debug)]
pub struct MessageLog {
    channel: String,
    payloads: Arc<Mutex<Vec<String>>>,
    recorder: AbortHandle,
}

impl MessageLog {
    /// The payloads so far.
    pub fn payloads(&self) -> Vec<String> {
        self.payloads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until at least `count` messages have come, and gives the payloads so far.
    ///
    /// Panics when they have not within `bound`.
    pub async fn wait_for(&self, count: usize, bound: Duration) -> Vec<String> {
        let what = format!("{count} messages on {}", self.channel);
        eventually(bound, &what, async || self.payloads().len() >= count).await;
        self.payloads()
    }
}

impl Drop for MessageLog {
    fn drop(&mut self) {
        self.recorder.abort();
    }
}

/// The name and the count out of `cmdstat_evalsha:calls=3,usec=41,…`. The reset itself is left
/// out: it is counted after it has reset.
fn command_calls(line: &str) -> Option<(String, u64)> {
    let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
    let calls = rest.split(',').next()?.parse().ok()?;
    (name != "config|resetstat").then(|| (name.to_owned(), calls))
}
