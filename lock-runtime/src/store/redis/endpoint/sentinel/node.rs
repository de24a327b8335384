//! One sentinel, and how it is asked.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join;
use parking_lot::{Mutex, MutexGuard};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, PushInfo, PushKind, RedisError, RedisResult, Value,
    from_redis_value,
};
use tokio::sync::Notify;

use super::named::Named;
use super::{NODE_TIMEOUT, not_understood};
use crate::error::{StoreError, StoreErrorKind};
use crate::store::redis::endpoint::connect;
use crate::store::redis::server::errors::{Cause, server_error};

/// What sentinels publish when another server becomes the master: the one that promotes it, and all.
const EVENTS: [&str; 2] = ["+promoted-slave", "+switch-master"];

/// After how many questions without an answer the connection is made anew.
const MISSES: u32 = 3;

/// See the module.
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

    /// What it names as the master, if it knows that name. May be dropped at any time. On the same
    /// connection it tells `hint` when to ask again.
    pub(crate) async fn ask(
        &self,
        master: &str,
        hint: &Arc<Notify>,
    ) -> Result<Option<Named>, StoreError> {
        if self.missed.fetch_add(1, Ordering::Relaxed) >= MISSES {
            *self.connection() = None;
        }
        let kept = self.connection().clone();
        if let Some(connection) = kept {
            match query(&connection, master).await {
                // It may just have been restarted.
                Err(error) if error.is_unrecoverable_error() || error.is_io_error() => {
                    *self.connection() = None;
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
        // Without events there still is the next question.
        let _ = connection.subscribe(&EVENTS).await;
        let answer = query(&connection, master).await;
        *self.connection() = Some(connection);
        self.answered(answer)
    }

    pub(crate) fn rest(&self) {
        *self.connection() = None;
    }

    fn answered(&self, answer: RedisResult<Option<Named>>) -> Result<Option<Named>, StoreError> {
        self.missed.store(0, Ordering::Relaxed);
        answer.map_err(refusal)
    }

    fn connection(&self) -> MutexGuard<'_, Option<MultiplexedConnection>> {
        self.connection.lock()
    }
}

/// True for an event of this master: a sentinel may watch many.
fn is_about(push: &PushInfo, master: &str) -> bool {
    match push.data.get(1) {
        Some(Value::BulkString(event)) => {
            event.split(|byte| *byte == b' ').any(|word| word == master.as_bytes())
        }
        _ => false,
    }
}

/// Both questions at once: who it is, and since which epoch.
async fn query(connection: &MultiplexedConnection, master: &str) -> RedisResult<Option<Named>> {
    let ask = |what| {
        let mut connection = connection.clone();
        let mut cmd = redis::cmd("SENTINEL");
        cmd.arg(what).arg(master);
        async move { connection.send_packed_command(&cmd).await?.extract_error() }
    };
    let (state, address) = join(ask("MASTER"), ask("GET-MASTER-ADDR-BY-NAME")).await;
    let (host, port) = match address? {
        Value::Nil => return Ok(None),
        address => from_redis_value::<(String, u16)>(address)?,
    };
    // Whatever else answers for a sentinel may know nothing of epochs.
    let state: HashMap<String, String> =
        state.ok().and_then(|state| from_redis_value(state).ok()).unwrap_or_default();
    let number = |field| state.get(field).and_then(|number| number.parse().ok());
    let epoch = number("config-epoch").unwrap_or(0);
    let down_after = number("down-after-milliseconds").map(Duration::from_millis);
    Ok(Some(Named { host: host.into(), port, epoch, down_after }))
}

/// Why a sentinel gives no answer.
fn refusal(error: RedisError) -> StoreError {
    if error.detail().is_some_and(|detail| detail.contains("unknown command")) {
        let message = "what answers there is no sentinel; give the address of one, whose port is \
                       26379 unless it was told another";
        return StoreError::new(StoreErrorKind::Config, message).with_source(Cause(error));
    }
    if error.is_io_error() || error.is_timeout() {
        let message = "a sentinel did not answer in time";
        return StoreError::new(StoreErrorKind::Unavailable, message).with_source(Cause(error));
    }
    if error.code().is_none() {
        return not_understood().with_source(Cause(error));
    }
    server_error(error)
}
