//! What is different about the connection to a node of a cluster.
//!
//! Notices are published to the node that has the slot of their channel, and the server ends the
//! subscription when the slot goes elsewhere. It says so on its own account, and the client library
//! takes that for the answer to whatever command is waiting: each answer that follows would go to the
//! one before. So what subscribes has a connection of its own, on which no answer decides
//! anything; what the server pushes does.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, PushKind, RedisResult, Value};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};
use uuid::Uuid;

use super::{CallError, Connection, Link};

/// How notices of releases travel.
#[derive(Clone)]
pub(crate) enum Notices {
    /// To all who listen, by PUBLISH.
    Everywhere,
    /// By SPUBLISH, as Redisson does it in a cluster. Whoever knows where slots are is told when the
    /// server ends a subscription.
    InSlot(Arc<Notify>),
}

impl Notices {
    pub(crate) fn are_in_slot(&self) -> bool {
        matches!(self, Self::InSlot(_))
    }
}

tokio::task_local! {
    /// Set around a call that another node has redirected, for this once, to where it goes.
    static ASKING: ();
}

/// Makes a call at a node that is about to get the slot, as an ASK wants it: each of its commands
/// goes out right behind an ASKING.
pub(crate) fn asking<F: Future>(call: F) -> impl Future<Output = F::Output> {
    ASKING.scope((), call)
}

/// Sends one command and gives its answer, which may be an error.
pub(crate) async fn transmit(
    connection: &mut MultiplexedConnection,
    cmd: &Cmd,
) -> RedisResult<Value> {
    if ASKING.try_with(|()| ()).is_err() {
        return connection.send_packed_command(cmd).await;
    }
    let mut pair = redis::pipe();
    pair.cmd("ASKING").add_command(cmd.clone());
    // The answer to the first is skipped: if it is refused, so is the second.
    let answers = connection.send_packed_commands(&pair, 1, 1).await?;
    Ok(answers.into_iter().next().unwrap_or(Value::Nil))
}

impl Link {
    /// A link to a node of a cluster.
    pub(crate) fn to_node(client: redis::Client, told: Arc<Notify>, id: Uuid) -> Arc<Self> {
        Self::made(client.into(), false, Notices::InSlot(told), id)
    }

    pub(crate) fn notices(&self) -> &Notices {
        &self.notices
    }

    /// The link that subscribes: this one, or in a cluster another to the same node.
    pub(crate) fn for_notices(self: &Arc<Self>) -> Arc<Self> {
        if self.notices.are_in_slot() { self.another() } else { Arc::clone(self) }
    }

    /// Subscribes one channel. More at once would have to be of one slot.
    pub(crate) async fn subscribe_in_slot(
        &self,
        live: &Connection,
        name: &str,
        deadline: Instant,
    ) -> Result<(), CallError> {
        let mut subscribe = redis::cmd("SSUBSCRIBE");
        subscribe.arg(name);
        let answer = timeout_at(deadline, live.ask(&subscribe)).await;
        self.judge(live, answer)?;
        // Nearly always it is there: it was pushed before the answer.
        while !self.channels.is_confirmed(name, live.number) {
            if live.is_retired() || Instant::now() >= deadline {
                return Err(CallError::TimedOut);
            }
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// Ends subscriptions.
    pub(crate) async fn unsubscribe(&self, live: &Connection, names: &[String]) -> RedisResult<()> {
        if !self.notices.are_in_slot() {
            return live.unsubscribe(names).await;
        }
        let one = |name: &String| {
            let mut unsubscribe = redis::cmd("SUNSUBSCRIBE");
            unsubscribe.arg(name);
            // An error reply says that the slot has gone, and with it the subscription.
            live.send(unsubscribe)
        };
        let answered = |answer: RedisResult<Value>| match answer {
            Err(error) if error.is_io_error() || error.is_unrecoverable_error() => Err(error),
            _ => Ok(()),
        };
        join_all(names.iter().map(one)).await.into_iter().try_for_each(answered)
    }

    /// What the server says of a channel. Runs inside the connection's driver.
    pub(crate) fn on_notice(&self, number: u64, kind: &PushKind, name: &str) {
        match (kind, &self.notices) {
            (PushKind::Message | PushKind::SMessage, _) => self.channels.notice(name),
            (PushKind::SSubscribe, _) => self.channels.confirm(name, number),
            (PushKind::SUnsubscribe, Notices::InSlot(told)) if self.channels.lose(name, number) => {
                told.notify_one();
            }
            _ => {}
        }
    }
}
