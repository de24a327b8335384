//! Fault 72: a rolling deployment: a process of an early version of this library, with the scripts of that time, uses the same
//! locks as the present one; and a process of some later version has left what the present one does not know.
//!
//! - Promised: what is in the keys is Redisson's layout in every version, so versions exclude each other and have one order
//!   of tokens. A lock of a kind that this version does not know is refused as a collision, and is not changed.
//! - Seen: both versions had each lock again and again, without a violation.

use std::sync::Arc;

use lock_tests::history::{Op, Recorder, Share, Stamp};

use crate::prelude::*;

/// The number of the process of an early version in the history.
const FIRST: u32 = 5;

/// The mutex of an early version: KEYS lock, counter; ARGV owner, lease, tokens, expiry of the counter.
const ACQUIRE_MUTEX: &str = "
local ttl = redis.call('PTTL', KEYS[1])
local ours = false
if ttl ~= -2 then
  ours = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
  if not ours then
    if redis.call('HEXISTS', KEYS[1], 'mode') == 1 then
      return redis.error_reply('WRONGTYPE the key holds a read/write lock')
    end
    return ttl
  end
end
local token = mint(KEYS[2], ARGV[3], ARGV[4])
if not ours then
  redis.call('HSET', KEYS[1], ARGV[1], 1)
end
if ttl < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return token";

/// KEYS lock; ARGV owner, channel.
const RELEASE_MUTEX: &str = "
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return -1
end
redis.call('DEL', KEYS[1])
return redis.call('PUBLISH', ARGV[2], '0')";

/// The write side of an early version that had one: KEYS and ARGV as for the mutex.
const ACQUIRE_WRITE: &str = "
local field = ARGV[1] .. ':write'
local mode = redis.call('HGET', KEYS[1], 'mode')
if not mode and redis.call('EXISTS', KEYS[1]) == 1 or mode == 'fair' then
  return redis.error_reply('WRONGTYPE the key holds another kind of lock')
end
if mode then
  return redis.call('PTTL', KEYS[1])
end
local token = mint(KEYS[2], ARGV[3], ARGV[4])
redis.call('HSET', KEYS[1], 'mode', 'write', field, 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return token";

/// KEYS lock; ARGV owner, channel.
const RELEASE_WRITE: &str = "
if redis.call('HEXISTS', KEYS[1], ARGV[1] .. ':write') == 0 then
  return -1
end
redis.call('DEL', KEYS[1])
return redis.call('PUBLISH', ARGV[2], '1')";

/// What mints tokens in an early version.
const MINT: &str = "
local function mint(counter, tokens, expiry)
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  local last = string.format('%.0f', now + tokens - 1)
  local previous = redis.call('SET', counter, last, 'PX', expiry, 'GET')
  if previous and tonumber(previous) >= now then
    redis.call('SET', counter, previous, 'PX', expiry)
    redis.call('INCRBY', counter, tokens)
    last = redis.call('GET', counter)
  end
  return last
end";

/// A task of an early version, which asks for a lock, holds it for a moment and releases it.
struct Earlier {
    raw: RawClient,
    recorder: Arc<Recorder>,
    task: u64,
    name: &'static str,
    acquire: String,
    release: &'static str,
    channel: &'static str,
}

impl Earlier {
    /// Asks until it has had the lock so many times.
    async fn work(self, times: usize) {
        let record = |op| self.recorder.record(self.task, self.name, op);
        let (counter, lease) = (format!("redisson_lock_token:{{{}}}", self.name), ms(700));
        let millis = lease.as_millis().to_string();
        let mut had = 0;
        for number in 0.. {
            let owner = format!("0f1e2d3c-4b5a-4968-8778-9695a4b3c2d{}:{number}", self.task);
            let request =
                ["EVAL", &self.acquire, "2", self.name, &counter, &owner, &millis, "1", "86400000"];
            record(Op::AcquireInvoked);
            let sent_at = Stamp::now();
            match self.raw.cmd(&request).await {
                redis::Value::BulkString(token) => {
                    let token = String::from_utf8(token).unwrap().parse().ok();
                    let valid_until = Some(sent_at.after(lease - ms(20)));
                    record(Op::Acquired { share: Share::Exclusive, token, valid_until });
                    sleep(ms(fastrand::u64(0..3))).await;
                    record(Op::ReleaseInvoked);
                    let request = ["EVAL", self.release, "1", self.name, &owner, self.channel];
                    let heard: i64 = self.raw.get(&request).await;
                    record(if heard >= 0 { Op::Released } else { Op::NotReleased { lost: true } });
                    had += 1;
                    if had == times {
                        return;
                    }
                }
                _ => record(Op::NotAcquired),
            }
            sleep(ms(fastrand::u64(1..6))).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_work_side_by_side() {
    let mut drill = Drill::start().await;
    let side_by_side = async |drill: &mut Drill| {
        let recorder = Arc::new(drill.record_as(FIRST));
        let earlier = [
            (0, "mutex", ACQUIRE_MUTEX, RELEASE_MUTEX, "redisson_lock__channel:{mutex}"),
            (1, "read-write", ACQUIRE_WRITE, RELEASE_WRITE, "redisson_rwlock:{read-write}"),
        ];
        let tasks = earlier.map(|(task, name, acquire, release, channel)| {
            let (raw, recorder) = (RawClient::new(&drill.server.url()), Arc::clone(&recorder));
            let acquire = format!("{MINT}{acquire}");
            Earlier { raw, recorder, task, name, acquire, release, channel }.work(20)
        });
        timeout(SOON, join_all(tasks)).await.expect("an early version starves");
    };
    side_by_side(&mut drill).await;
    drill.all_work().await;
    drill.end(secs(3)).await;
}

test_with!(what_a_later_version_left_is_respected, RedisServer::start(), async |server| {
    let (raw, client) = (server.client(), LockClient::connect(&server.url()).await.unwrap());
    // A lock of a kind that there is not yet, and a companion key of one that there is.
    let owner = "0f1e2d3c-4b5a-4968-8778-9695a4b3c2d1:1";
    raw.cmd(&["HSET", "later", "mode", "upgradable", owner, "1"]).await;
    raw.cmd(&["PEXPIRE", "later", "60000"]).await;
    raw.cmd(&["SET", "redisson_lock_note:{mutex}", "written later"]).await;
    let before = raw.hgetall("later").await;
    for kind in ["mutex", "fair", "read", "write", "semaphore"] {
        let error = take(&client, kind, "later", waits(LEASE)).await.unwrap_err();
        assert!(matches!(error, LockError::KeyCollision { .. }), "{kind}: {error:?}");
    }
    client.mutex("mutex").lock().await.unwrap().release().await.unwrap();
    assert_eq!(raw.hgetall("later").await, before);
    let note: String = raw.get(&["GET", "redisson_lock_note:{mutex}"]).await;
    assert_eq!(note, "written later");
});
