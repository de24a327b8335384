//! Facts that a server reports about itself: its uptime, and whether it may evict locks.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use redis::{Cmd, Value};
use tokio::time::Instant;

use super::answers::surprise;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::redis::link::Link;

/// How long the question about eviction may delay the start.
const EVICTION_TIMEOUT: Duration = Duration::from_millis(500);

/// One line of a section of INFO; `None` if the server does not say it.
async fn info(
    link: &Link,
    section: &str,
    field: &str,
    deadline: Instant,
) -> Result<Option<String>, StoreError> {
    let mut info = redis::cmd("INFO");
    info.arg(section);
    Ok(value_of(&ask(link, &info, deadline).await?, field).map(str::to_owned))
}

/// All that INFO says unless asked for more.
pub(crate) async fn all(
    link: &Link,
    deadline: Instant,
) -> Result<BTreeMap<String, String>, StoreError> {
    let text = ask(link, &redis::cmd("INFO"), deadline).await?;
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    Ok(fields.map(|(field, value)| (field.to_owned(), value.trim().to_owned())).collect())
}

async fn ask(link: &Link, info: &Cmd, deadline: Instant) -> Result<String, StoreError> {
    match link.call(info, deadline).await? {
        Value::BulkString(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
        Value::VerbatimString { text, .. } => Ok(text),
        other => Err(surprise(&other.into())),
    }
}

/// The value of a field in an answer to INFO; `None` if the answer does not have it.
pub(crate) fn value_of<'a>(text: &'a str, field: &str) -> Option<&'a str> {
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(name, _)| *name == field).map(|(_, value)| value.trim())
}

/// Logs a warning if the server evicts keys when its memory is full; not if the user may not ask.
pub(crate) async fn warn_of_eviction(link: &Link) {
    let deadline = Instant::now() + EVICTION_TIMEOUT;
    let policy = info(link, "memory", "maxmemory_policy", deadline).await;
    if let Some(policy) = policy.ok().flatten().filter(|policy| policy != "noeviction") {
        tracing::warn!(
            "the lock store may evict locks: its `maxmemory-policy` is `{policy}`; set it to `noeviction`"
        );
    }
}

/// How long an answer counts. A connection may go to a proxy, and then survives a restart of the server behind it.
const AGE_COUNTS: Duration = Duration::from_secs(1);

/// The time since the server started. Asked again on each connection, and after a second on the same.
// S-29.
#[derive(Default)]
pub(crate) struct Age(Mutex<Option<Known>>);

#[derive(Clone, Copy)]
struct Known {
    connection: u64,
    age: Duration,
    at: Instant,
}

impl Age {
    pub(crate) async fn of(&self, link: &Link, timeout: Duration) -> Result<Duration, StoreError> {
        // Read before asking: an answer over a later connection must not count for it.
        let connection = link.connection();
        if let Some(known) = *self.0.lock()
            && connection == Some(known.connection)
            && known.at.elapsed() < AGE_COUNTS
        {
            return Ok(known.age + known.at.elapsed());
        }
        let at = Instant::now();
        let uptime = info(link, "server", "uptime_in_seconds", at + timeout).await?;
        let Some(seconds) = uptime.and_then(|seconds| seconds.parse().ok()) else {
            let message = "the server does not say how long it has been up";
            return Err(StoreError::new(StoreErrorKind::Protocol, message));
        };
        let age = Duration::from_secs(seconds);
        *self.0.lock() = connection.map(|connection| Known { connection, age, at });
        Ok(age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uptime_is_read() {
        let info = "# Server\r\nuptime_in_seconds:75\r\nuptime_in_days:0\r\n";
        assert_eq!(value_of(info, "uptime_in_seconds"), Some("75"));
        assert_eq!(value_of("# Server\r\n", "uptime_in_seconds"), None);
    }
}
