//! A side channel to a server: commands as they are, without the library under test.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::{Client, Connection, FromRedisValue, IntoConnectionInfo, RedisResult, Value};
use tokio::task::spawn_blocking;

/// The channel on which clients are asked who holds and who waits.
pub const SURVEYS: &str = "lock_runtime:survey";

/// How long one command may take. Bounds a command that is sent to a stopped server.
const REPLY_BOUND: Duration = Duration::from_secs(10);

/// How long a key will be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ttl {
    /// There is no such key.
    Missing,
    /// The key has no expiry.
    Forever,
    /// The key expires after this time.
    Left(Duration),
}

/// One connection to a server, opened on the first command and again after an error. Clones share
/// it.
///
/// The connection belongs to no runtime: a server that several tests share keeps its side channel
/// when the first of them ends. All helpers panic when the command fails, and name it.
#[derive(Clone)]
pub struct RawClient {
    client: Client,
    connection: Arc<Mutex<Option<Connection>>>,
}

impl std::fmt::Debug for RawClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawClient").finish_non_exhaustive()
    }
}

impl RawClient {
    /// A client for the server at `url`. Connects on the first command.
    ///
    /// Panics when `url` is not one of a Redis server.
    pub fn new(url: &str) -> Self {
        let info = url.into_connection_info().expect("the test gives a valid Redis URL");
        // Nothing of ours is to show up among the commands that a test counts.
        let settings = info.redis_settings().clone().set_skip_set_lib_name();
        let client = Client::open(info.set_redis_settings(settings))
            .expect("the URL's scheme needs no feature that is off");
        Self { client, connection: Arc::default() }
    }

    /// Sends a command, and gives its reply or the error that the server or the connection gave.
    ///
    /// # Errors
    ///
    /// The server's error reply, or the connection's failure; the next command then reconnects.
    ///
    /// Panics when the runtime shuts down meanwhile.
    pub async fn try_cmd(&self, words: &[&str]) -> RedisResult<Value> {
        let mut command = redis::cmd(words.first().copied().unwrap_or_default());
        command.arg(words.get(1..).unwrap_or_default());
        let this = self.clone();
        spawn_blocking(move || {
            let mut slot = this.connection.lock().unwrap_or_else(PoisonError::into_inner);
            let connection = match &mut *slot {
                Some(connection) => connection,
                none => none.insert(this.connect()?),
            };
            let reply = command.query(connection);
            // Only an error reply has a code; after any other the connection's state is unknown.
            if reply.as_ref().is_err_and(|error| error.code().is_none()) {
                *slot = None;
            }
            reply
        })
        .await
        .expect("the runtime outlives the test that it runs")
    }

    /// Sends a command and gives its reply.
    ///
    /// Panics when the command fails.
    pub async fn cmd(&self, words: &[&str]) -> Value {
        match self.try_cmd(words).await {
            Ok(reply) => reply,
            Err(error) => panic!("`{}` failed: {error}", words.join(" ")),
        }
    }

    /// Sends a command and converts its reply.
    ///
    /// Panics when the command fails or its reply is of another type.
    pub async fn get<T: FromRedisValue>(&self, words: &[&str]) -> T {
        match redis::from_redis_value(self.cmd(words).await) {
            Ok(value) => value,
            Err(error) => panic!("the reply to `{}` is unexpected: {error}", words.join(" ")),
        }
    }

    /// How long `key` will be there.
    pub async fn pttl(&self, key: &str) -> Ttl {
        match self.get::<i64>(&["PTTL", key]).await {
            -2 => Ttl::Missing,
            -1 => Ttl::Forever,
            millis => Ttl::Left(Duration::from_millis(millis.unsigned_abs())),
        }
    }

    /// The server's time in milliseconds since the epoch.
    pub async fn time_millis(&self) -> u64 {
        let (seconds, micros): (u64, u64) = self.get(&["TIME"]).await;
        seconds * 1_000 + micros / 1_000
    }

    /// The fields of the hash at `key`; none if there is no such key.
    pub async fn hgetall(&self, key: &str) -> BTreeMap<String, String> {
        self.get(&["HGETALL", key]).await
    }

    /// Whether there is a key of this name.
    pub async fn exists(&self, key: &str) -> bool {
        self.get(&["EXISTS", key]).await
    }

    /// The names of all keys, sorted.
    pub async fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.get(&["KEYS", "*"]).await;
        keys.sort();
        keys
    }

    /// The channels of locks that are subscribed. Clients that answer surveys subscribe one that is no lock's.
    pub async fn lock_channels(&self) -> Vec<String> {
        let mut channels: Vec<String> = self.get(&["PUBSUB", "CHANNELS"]).await;
        channels.retain(|channel| channel != SURVEYS);
        channels
    }

    /// Deletes `key`, and says whether it was there.
    pub async fn del(&self, key: &str) -> bool {
        self.get(&["DEL", key]).await
    }

    fn connect(&self) -> RedisResult<Connection> {
        let connection = self.client.get_connection_with_timeout(REPLY_BOUND)?;
        connection.set_read_timeout(Some(REPLY_BOUND))?;
        Ok(connection)
    }
}
