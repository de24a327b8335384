//! What locks leave on a server.

use std::time::Duration;

use redis::RedisResult;
use tokio::time::{Instant, sleep};

use crate::raw_client::SURVEYS;
use crate::{RawClient, RedisServer};

/// How long a busy server may take to answer, and connections to end.
const SOON: Duration = Duration::from_secs(20);

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Names that stay on purpose start with these.
const COUNTERS: [&str; 4] =
    ["redisson_lock_token:", "redisson_unlock_latch:", "__sentinel__:", SURVEYS];

/// What the server has of any lock, its fencing counters and `kept` aside: keys that do not go within `at_once`, else
/// channels with subscribers.
///
/// Connections take their time to end. Where no process was killed, keys must be gone before the lease of any hold is over:
/// its end must not do what a release should have done.
pub async fn left_at_end(server: &RedisServer, at_once: Duration, kept: &[&str]) -> Vec<String> {
    let raw = server.client();
    let start = Instant::now();
    loop {
        // A server whose role has changed has cut this connection.
        let left = left(&raw, kept).await;
        let waited = start.elapsed();
        match left {
            Ok([keys, _]) if !keys.is_empty() && waited >= at_once => return keys,
            Ok([keys, channels]) if keys.is_empty() && (channels.is_empty() || waited >= SOON) => {
                return channels;
            }
            Err(error) if waited >= SOON => panic!("the server does not answer: {error}"),
            _ => sleep(PAUSE).await,
        }
    }
}

/// The keys and the channels.
async fn left(raw: &RawClient, kept: &[&str]) -> RedisResult<[Vec<String>; 2]> {
    let names = async |look: [&str; 2]| {
        let mut names: Vec<String> = redis::from_redis_value(raw.try_cmd(&look).await?)?;
        let stays = |name: &str| {
            kept.contains(&name) || COUNTERS.iter().any(|prefix| name.starts_with(prefix))
        };
        names.retain(|name| !stays(name));
        RedisResult::Ok(names)
    };
    let mut channels = names(["PUBSUB", "CHANNELS"]).await?;
    channels.extend(names(["PUBSUB", "SHARDCHANNELS"]).await?);
    Ok([names(["KEYS", "*"]).await?, channels])
}
