//! What the server reports of itself.
#![expect(clippy::disallowed_types, reason = "times that people read; no decision uses them")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::Value;
use tokio::time::Instant;

use super::RedisStore;
use crate::error::StoreError;
use crate::store::redis::link::named;
use crate::store::redis::requests::answers::surprise;
use crate::store::redis::requests::{info, rights};
use crate::store::{MissingRight, ProcessNames, ServerFacts, ServerReport};

impl RedisStore {
    pub(in crate::store::redis) async fn report(
        &self,
        timeout: Duration,
    ) -> ServerReport<ServerFacts> {
        let facts = self.facts(Instant::now() + timeout).await;
        ServerReport::new(self.link.address(), facts)
    }

    pub(in crate::store::redis) async fn rights(
        &self,
        timeout: Duration,
    ) -> ServerReport<Vec<MissingRight>> {
        self.link.ensure_task();
        let missing = rights::missing(&self.link, Instant::now() + timeout).await;
        ServerReport::new(self.link.address(), missing)
    }

    /// The processes of clients, by the names of their connections. All connections are listed: one with a subscription is of
    /// another type than the others, and a client has either.
    pub(in crate::store::redis) async fn names_of_processes(
        &self,
        timeout: Duration,
    ) -> Result<ProcessNames, StoreError> {
        self.link.ensure_task();
        let list = self.link.call(redis::cmd("CLIENT").arg("LIST"), Instant::now() + timeout).await;
        let list = list.map_err(|error| error.within(timeout))?;
        match redis::from_redis_value_ref::<String>(&list) {
            Ok(list) => Ok(named(&list).collect()),
            Err(_) => Err(surprise(&list.into())),
        }
    }

    async fn facts(&self, deadline: Instant) -> Result<ServerFacts, StoreError> {
        self.link.ensure_task();
        let info = info::all(&self.link, deadline).await?;
        let (start, asked) = (Instant::now(), SystemTime::now());
        let time = self.link.call(&redis::cmd("TIME"), deadline).await?;
        let round_trip = start.elapsed();
        let clock = clock(&time).ok_or_else(|| surprise(&time.into()))?;
        Ok(ServerFacts { info, round_trip, clock, own_clock: asked + round_trip / 2 })
    }
}

/// The time in an answer to TIME: seconds and microseconds.
fn clock(answer: &Value) -> Option<SystemTime> {
    let Value::Array(parts) = answer else { return None };
    let [Value::BulkString(seconds), Value::BulkString(micros)] = &parts[..] else { return None };
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u64>().ok();
    let since = Duration::from_secs(number(seconds)?)
        .checked_add(Duration::from_micros(number(micros)?))?;
    UNIX_EPOCH.checked_add(since)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_time_is_one() {
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let time = clock(&Value::Array(vec![bulk("1700000000"), bulk("250000")])).unwrap();
        assert_eq!(time, UNIX_EPOCH + Duration::from_millis(1_700_000_000_250));
        let most = u64::MAX.to_string();
        for parts in
            [vec![], vec![bulk("1")], vec![bulk("1"), bulk("x")], vec![bulk(&most), bulk(&most)]]
        {
            assert_eq!(clock(&Value::Array(parts)), None);
        }
    }
}
