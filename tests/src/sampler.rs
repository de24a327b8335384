//! A look at a server again and again while locks are used, for what only the server can tell.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::{FromRedisValue as _, from_redis_value};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::fair_queue::FairQueue;
use crate::history::{Op, Recorder};
use crate::raw_client::RawClient;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Which keys never end.
const ENDLESS: &str = "
local endless = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  if redis.call('PTTL', key) == -1 then endless[#endless + 1] = key end
end
return endless";

/// How many of the keys there are at one moment, and after how many milliseconds the last of those ends.
const PARTS: &str = "
local held, ends_in = 0, 0
for _, key in ipairs(KEYS) do
  local left = redis.call('PTTL', key)
  if left ~= -2 then held, ends_in = held + 1, math.max(ends_in, left) end
end
return {held, ends_in}";

/// Records [`Op::Endless`], [`Op::Parts`] and [`Op::Passed`] until it is dropped.
#[derive(Debug)]
pub struct Sampler {
    task: JoinHandle<()>,
    looks: Arc<AtomicUsize>,
}

impl Sampler {
    /// Looks at a server, where the lock `object` consists of the keys `parts` and `fair` is a fair mutex. Keys that are in
    /// `kept` may be without an end. A server that does not answer is not looked at, and one of a cluster not for the keys of others.
    pub fn start(
        server: RawClient,
        recorder: Arc<Recorder>,
        object: &'static str,
        parts: &'static [&'static str],
        fair: &'static str,
        kept: &'static [&'static str],
    ) -> Self {
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&looks);
        let task = tokio::spawn(async move {
            let (of, number) = (parts.len(), parts.len().to_string());
            let look = [&["EVAL", PARTS, &number][..], parts].concat();
            let mut queue: Option<FairQueue> = None;
            loop {
                if let Ok(answer) = server.try_cmd(&["EVAL", ENDLESS, "0"]).await {
                    let endless = Vec::<String>::from_redis_value(answer).unwrap_or_default();
                    for key in endless.iter().filter(|key| !kept.contains(&key.as_str())) {
                        recorder.record(0, key, Op::Endless);
                    }
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                let looked = server.try_cmd(&look).await.and_then(|it| Ok(from_redis_value(it)?));
                if let Ok((held, ends_in)) = looked
                    && held != 0
                    && held != of
                {
                    recorder.record(0, object, Op::Parts { held, of, ends_in });
                }
                let later = FairQueue::of(&server, fair).await.ok();
                if let (Some(queue), Some(later)) = (&queue, &later) {
                    for (waiter, by) in queue.passed(later) {
                        let (waiter, by) = (waiter.to_owned(), by.to_owned());
                        recorder.record(0, fair, Op::Passed { waiter, by });
                    }
                }
                queue = later;
                sleep(PAUSE).await;
            }
        });
        Self { task, looks }
    }

    /// How often the server has answered.
    pub fn looks(&self) -> usize {
        self.looks.load(Ordering::Relaxed)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.task.abort();
    }
}
