//! A look at a server again and again while locks are used, for what only the server can tell.

use std::sync::Arc;
use std::time::Duration;

use redis::FromRedisValue as _;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::history::{Op, Recorder};
use crate::raw_client::RawClient;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Which keys never end, and how many of these keys exist: in one script, so of one moment.
const LOOK: &str = "
local endless = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  if redis.call('PTTL', key) == -1 then endless[#endless + 1] = key end
end
return {endless, redis.call('EXISTS', unpack(KEYS))}";

/// Records [`Op::Endless`] and [`Op::Parts`] until it is dropped.
#[derive(Debug)]
pub struct Sampler {
    task: JoinHandle<()>,
}

impl Sampler {
    /// Looks at a server, where the lock `object` consists of the keys `parts`. Keys that are in `kept` may be without an
    /// end. A server that does not answer is not looked at.
    pub fn start(
        server: RawClient,
        recorder: Arc<Recorder>,
        object: &'static str,
        parts: &'static [&'static str],
        kept: &'static [&'static str],
    ) -> Self {
        let task = tokio::spawn(async move {
            let count = parts.len().to_string();
            let words: Vec<&str> =
                ["EVAL", LOOK, &count].into_iter().chain(parts.iter().copied()).collect();
            loop {
                if let Ok(answer) = server.try_cmd(&words).await {
                    let (endless, held) = <(Vec<String>, usize)>::from_redis_value(answer)
                        .expect("the script answers two values");
                    for key in endless.iter().filter(|key| !kept.contains(&key.as_str())) {
                        recorder.record(0, key, Op::Endless);
                    }
                    if held != 0 && held != parts.len() {
                        recorder.record(0, object, Op::Parts { held, of: parts.len() });
                    }
                }
                sleep(PAUSE).await;
            }
        });
        Self { task }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.task.abort();
    }
}
