//! One sentinel.

use std::collections::HashMap;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join;
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ErrorKind, PushInfo, PushKind, RedisError,
    RedisResult, Value, from_redis_value,
};
use tokio::sync::Notify;

use super::named::Master;
use super::{NODE_TIMEOUT, not_understood};
use crate::error::{StoreError, StoreErrorKind};
use crate::store::redis::server::connect;
use crate::store::redis::server::errors::{Cause, config_error, server_error};

/// The events that sentinels publish on a failover: first the sentinel that promotes a server, and then all.
const EVENTS: [&str; 2] = ["+promoted-slave", "+switch-master"];

/// After this many requests without an answer, the connection is replaced.
const MISSES: u32 = 3;

/// One sentinel, and the connection to it.
pub(crate) struct Node {
    client: Client,
    connection: Mutex<Option<MultiplexedConnection>>,
    /// Questions since the last answer.
    missed: AtomicU32,
}

impl Node {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, connection: Mutex::default(), missed: AtomicU32::new(0) }
    }

    /// Asks for the master, which is `None` if the sentinel does not know the name. The future may be dropped at
    /// any time. Failovers that the sentinel publishes on the connection notify `hint`.
    pub(crate) async fn ask(
        &self,
        master: &str,
        hint: &Arc<Notify>,
    ) -> Result<Option<Master>, StoreError> {
        if self.missed.fetch_add(1, Ordering::Relaxed) >= MISSES {
            *self.connection.lock() = None;
        }
        let kept = self.connection.lock().clone();
        if let Some(connection) = kept {
            match query(&connection, master).await {
                // The sentinel may have been restarted; connect again below.
                Err(error) if error.is_unrecoverable_error() || error.is_io_error() => {
                    *self.connection.lock() = None;
                }
                answer => return self.answered(answer),
            }
        }
        let (name, hint) = (master.to_owned(), Arc::clone(hint));
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(NODE_TIMEOUT))
            .set_response_timeout(Some(NODE_TIMEOUT))
            .set_push_sender(move |push: PushInfo| {
                if push.kind == PushKind::Message && is_about(&push, &name) {
                    hint.notify_one();
                }
                Ok::<_, redis::aio::SendError>(())
            });
        let mut connection = connect(&self.client, &config, NODE_TIMEOUT).await?;
        // Without events, the next question finds the failover.
        let _ = connection.subscribe(&EVENTS).await;
        let answer = query(&connection, master).await;
        *self.connection.lock() = Some(connection);
        self.answered(answer)
    }

    pub(crate) fn disconnect(&self) {
        *self.connection.lock() = None;
    }

    fn answered(&self, answer: RedisResult<Option<Master>>) -> Result<Option<Master>, StoreError> {
        self.missed.store(0, Ordering::Relaxed);
        answer.map_err(|error| refusal(error, self.client.get_connection_info().addr()))
    }
}

/// True for an event about this master; a sentinel may watch several.
fn is_about(push: &PushInfo, master: &str) -> bool {
    match push.data.get(1) {
        Some(Value::BulkString(event)) => {
            event.split(|byte| *byte == b' ').any(|word| word == master.as_bytes())
        }
        _ => false,
    }
}

/// Asks for the address and the epoch of the master, both at once.
async fn query(connection: &MultiplexedConnection, master: &str) -> RedisResult<Option<Master>> {
    let ask = |what| {
        let mut connection = connection.clone();
        let mut cmd = redis::cmd("SENTINEL");
        cmd.arg(what).arg(master);
        async move { connection.send_packed_command(&cmd).await?.extract_error() }
    };
    let (state, address) = join(ask("MASTER"), ask("GET-MASTER-ADDR-BY-NAME")).await;
    named(address?, state.ok())
}

/// The master in a sentinel's answers: its address, and its state if the sentinel says it.
pub(crate) fn named(address: Value, state: Option<Value>) -> RedisResult<Option<Master>> {
    let (host, port) = match address {
        Value::Nil => return Ok(None),
        // As text: the client library would cut a number to the size of a port.
        address => from_redis_value::<(String, String)>(address)?,
    };
    let port = port.parse::<NonZeroU16>().map_err(|_| {
        RedisError::from((ErrorKind::UnexpectedReturnType, "a sentinel named no port", port))
    })?;
    // A substitute for a sentinel may not know the epoch.
    let state: HashMap<String, String> =
        state.and_then(|state| from_redis_value(state).ok()).unwrap_or_default();
    let number = |field| state.get(field).and_then(|number| number.parse().ok());
    let epoch = number("config-epoch").unwrap_or(0);
    let down_after = number("down-after-milliseconds").map(Duration::from_millis);
    Ok(Some(Master { host: host.into(), port: port.get(), epoch, down_after }))
}

/// The error of the sentinel at that address, which gave no answer.
fn refusal(error: RedisError, address: &ConnectionAddr) -> StoreError {
    let is_unknown = error.detail().is_some_and(|detail| detail.contains("unknown command"));
    let refusal = if is_unknown {
        config_error(format!(
            "the server at {address} is no sentinel; give the address of one, whose port is 26379 by default"
        ))
    } else if error.is_io_error() || error.is_timeout() {
        let message = format!("the sentinel at {address} did not answer in time");
        StoreError::new(StoreErrorKind::Unavailable, message)
    } else if error.code().is_none() {
        not_understood()
    } else {
        return server_error(error, address);
    };
    refusal.with_source(Cause(error))
}
