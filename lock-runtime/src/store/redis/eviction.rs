//! Whether a server may evict locks.

use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use crate::store::redis::link::Link;

/// How long the answer may hold up the start.
const ANSWER: Duration = Duration::from_millis(500);

/// Warns if the server evicts keys when its memory is full. A user who may not ask is not told.
pub(crate) async fn warn_of_eviction(link: &Link) {
    let mut info = redis::cmd("INFO");
    info.arg("memory");
    let answer = link.call(&info, Instant::now() + ANSWER).await;
    let text = match &answer {
        Ok(Value::BulkString(text)) => String::from_utf8_lossy(text),
        Ok(Value::VerbatimString { text, .. }) => text.as_str().into(),
        _ => return,
    };
    let policy = text.lines().find_map(|line| line.strip_prefix("maxmemory_policy:"));
    if let Some(policy) = policy.filter(|policy| *policy != "noeviction") {
        tracing::warn!(
            "the lock store may evict locks: its `maxmemory-policy` is `{policy}`; set it to `noeviction`"
        );
    }
}
