//! A client of Redisson, whose fair lock is done here by hand.

use crate::kinds::fair::world::*;

/// How long a Redisson client waits unless told otherwise, in milliseconds.
pub(crate) const PATIENCE: f64 = 300_000.0;

/// What each of its scripts begins with: a waiter at the head and overdue goes.
const SWEEP: &str = "
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local head = redis.call('LINDEX', KEYS[2], 0)
while head and tonumber(redis.call('ZSCORE', KEYS[3], head) or '+inf') <= now() do
  redis.call('ZREM', KEYS[3], head)
  redis.call('LPOP', KEYS[2])
  head = redis.call('LINDEX', KEYS[2], 0)
end
";

/// Lines up behind the last waiter, or behind the holder's lease.
const LINE_UP: &str = "
local last = redis.call('LINDEX', KEYS[2], -1)
local from = last and redis.call('ZSCORE', KEYS[3], last) or now() + math.max(redis.call('PTTL', KEYS[1]), 0)
redis.call('ZADD', KEYS[3], from + ARGV[2], ARGV[1])
redis.call('RPUSH', KEYS[2], ARGV[1])
return 1";

/// Takes the lock if it is free and its turn. Everybody else's time is moved back by its own.
const TAKE: &str = "
if head and head ~= ARGV[1] or redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
redis.call('LREM', KEYS[2], 1, ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
for _, other in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do
  redis.call('ZINCRBY', KEYS[3], -ARGV[2], other)
end
redis.call('HSET', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], 30000)
return 1";

const UNLOCK: &str = "
local deleted = redis.call('DEL', KEYS[1])
if head then
  redis.call('PUBLISH', ARGV[3] .. head, '0')
end
return deleted";

/// Stops waiting. The time of everybody behind it is moved back by its own.
const GIVE_UP: &str = "
local line = redis.call('LRANGE', KEYS[2], 0, -1)
local is_behind = false
for _, other in ipairs(line) do
  if is_behind then
    redis.call('ZINCRBY', KEYS[3], -ARGV[2], other)
  end
  is_behind = is_behind or other == ARGV[1]
end
redis.call('ZREM', KEYS[3], ARGV[1])
return redis.call('LREM', KEYS[2], 0, ARGV[1])";

/// A Redisson client: one owner with its own clock, which here is the server's.
///
/// Each step is one script, as Redisson's are, so that no client sees half of one.
pub(crate) struct Peer<'a> {
    pub(crate) world: &'a World,
    pub(crate) name: &'a str,
    pub(crate) owner: &'a str,
    /// How long it waits, in milliseconds: a `tryLock` says how long.
    pub(crate) patience: f64,
}

impl<'a> Peer<'a> {
    pub(crate) fn new(world: &'a World, name: &'a str, owner: &'a str) -> Self {
        Self { world, name, owner, patience: PATIENCE }
    }

    pub(crate) async fn cmd(&self, words: &[&str]) {
        self.world.server.client().cmd(words).await;
    }

    pub(crate) fn queue(&self) -> String {
        format!("redisson_lock_queue:{{{}}}", self.name)
    }

    pub(crate) fn ends(&self) -> String {
        format!("redisson_lock_timeout:{{{}}}", self.name)
    }

    async fn eval(&self, step: &str) -> bool {
        let (queue, ends) = (self.queue(), self.ends());
        let (script, patience) = (format!("{SWEEP}{step}"), self.patience.to_string());
        let channels = channel(self.name, "");
        let keys = ["EVAL", &script, "3", self.name, &queue, &ends];
        let words = [&keys[..], &[self.owner, &patience, &channels]].concat();
        self.world.server.client().get::<u8>(&words).await == 1
    }

    pub(crate) async fn line_up(&self) {
        assert!(self.eval(LINE_UP).await);
    }

    pub(crate) async fn take(&self) -> bool {
        self.eval(TAKE).await
    }

    pub(crate) async fn give_up(&self) {
        assert!(self.eval(GIVE_UP).await, "it was not in line");
    }

    /// Redisson's `forceUnlock` does not compare the owner. Nor does this.
    pub(crate) async fn unlock(&self) {
        assert!(self.eval(UNLOCK).await, "it held nothing");
    }
}
