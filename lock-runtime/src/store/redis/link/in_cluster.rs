//! How the connection to a node of a cluster differs.
//!
//! Scripts publish a notification to the node that has the slot of its channel, and the server ends the
//! subscription when the slot moves. The server sends that message unasked, and the client library mistakes it
//! for the answer to the command that waits, so each later answer would go to the command before its own. So a
//! separate link subscribes, and only pushed messages decide there, never answers.

use std::time::Duration;

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, PushKind, RedisResult, Value};
use tokio::time::{Instant, sleep, timeout_at};

use super::{CallError, Connection, Link};
use crate::store::redis::scripts::Publish;

tokio::task_local! {
    /// Set around a call that another node has redirected by ASK.
    static ASKING: ();
}

/// Makes a call at the node that imports the slot: sends ASKING right before each of its commands.
pub(crate) fn asking<F: Future>(call: F) -> impl Future<Output = F::Output> {
    ASKING.scope((), call)
}

/// True inside of [`asking`].
pub(super) fn is_asking() -> bool {
    ASKING.try_with(|()| ()).is_ok()
}

/// Sends one command and returns its answer, which may be an error.
pub(super) async fn transmit(
    connection: &mut MultiplexedConnection,
    cmd: &Cmd,
) -> RedisResult<Value> {
    if !is_asking() {
        return connection.send_packed_command(cmd).await;
    }
    let mut pair = redis::pipe();
    pair.cmd("ASKING").add_command(cmd.clone());
    // The answer to ASKING is skipped: if the server refuses it, it refuses the command too.
    let answers = Box::pin(connection.send_packed_commands(&pair, 1, 1)).await?;
    Ok(answers.into_iter().next().unwrap_or(Value::Nil))
}

impl Link {
    /// Subscribes one channel. Several channels in one command would have to be in one slot.
    pub(super) async fn subscribe_in_slot(
        &self,
        connection: &Connection,
        name: &str,
        deadline: Instant,
    ) -> Result<(), CallError> {
        let mut subscribe = redis::cmd("SSUBSCRIBE");
        subscribe.arg(name);
        let answer = timeout_at(deadline, connection.ask(&subscribe)).await;
        self.judge(connection, answer)?;
        // Nearly always true at once: the server pushes the confirmation before the answer.
        while !self.channels.is_confirmed(name, connection.number) {
            if connection.is_retired() || Instant::now() >= deadline {
                return Err(self.late());
            }
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// Ends subscriptions.
    pub(super) async fn unsubscribe(
        &self,
        connection: &Connection,
        names: &[String],
    ) -> RedisResult<()> {
        if self.publish() == Publish::Everywhere {
            return connection.unsubscribe(names).await;
        }
        let one = |name: &String| {
            let mut unsubscribe = redis::cmd("SUNSUBSCRIBE");
            unsubscribe.arg(name);
            // An error reply says that the slot has moved, which ended the subscription.
            connection.send(unsubscribe)
        };
        let answered = |answer: RedisResult<Value>| match answer {
            Err(error) if error.is_io_error() || error.is_unrecoverable_error() => Err(error),
            _ => Ok(()),
        };
        join_all(names.iter().map(one)).await.into_iter().try_for_each(answered)
    }

    /// Handles a message about a channel. Runs inside the connection's driver.
    pub(super) fn on_notice(&self, number: u64, kind: &PushKind, name: &str, message: &[u8]) {
        match kind {
            PushKind::Message | PushKind::SMessage => self.channels.deliver(name, message),
            PushKind::SSubscribe => self.channels.confirm(name, number),
            PushKind::SUnsubscribe if self.channels.lose(name, number) => {
                self.unsubscribed.iter().for_each(|unsubscribed| unsubscribed.notify_one());
            }
            _ => {}
        }
    }
}
