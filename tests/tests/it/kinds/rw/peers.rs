//! Redisson's read/write lock on the same key, command by command as its scripts do it.

use crate::kinds::rw::*;

/// A thread of a Java process that reads or writes.
struct Peer {
    raw: RawClient,
    name: &'static str,
}

const OWNER: &str = "8c5e9a52-6a1b-4c3d-9e6f-0123456789ab:57";

impl Peer {
    fn hold_end(&self, n: u32) -> String {
        format!("{{{}}}:{OWNER}:rwlock_timeout:{n}", self.name)
    }

    /// Its read lock on a name that is free or read.
    async fn read(&self, lease: &str) {
        self.raw.cmd(&["HSET", self.name, "mode", "read"]).await;
        let n: u32 = self.raw.get(&["HINCRBY", self.name, OWNER, "1"]).await;
        self.raw.cmd(&["SET", &self.hold_end(n), "1", "PX", lease]).await;
        let longer = self.raw.get::<i64>(&["PTTL", self.name]).await.max(lease.parse().unwrap());
        self.raw.cmd(&["PEXPIRE", self.name, &longer.to_string()]).await;
    }

    /// Its read unlock: looks for the time-outs of all holds, and deletes the lock if there is none.
    async fn unlock_read(&self) {
        let script = "
            local c = redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
            if c == 0 then redis.call('HDEL', KEYS[1], ARGV[1]) end
            redis.call('DEL', KEYS[2] .. ':' .. ARGV[1] .. ':rwlock_timeout:' .. (c + 1))
            if redis.call('HLEN', KEYS[1]) > 1 then
              local m = -3
              for _, f in ipairs(redis.call('HKEYS', KEYS[1])) do
                local n = tonumber(redis.call('HGET', KEYS[1], f))
                if n then
                  for i = n, 1, -1 do
                    local left = redis.call('PTTL', KEYS[2] .. ':' .. f .. ':rwlock_timeout:' .. i)
                    m = math.max(m, left)
                  end
                end
              end
              if m > 0 then redis.call('PEXPIRE', KEYS[1], m) return 0 end
              if redis.call('HGET', KEYS[1], 'mode') == 'write' then return 0 end
            end
            redis.call('DEL', KEYS[1])
            redis.call('PUBLISH', KEYS[3], '0')
            return 1";
        let (tag, channel) =
            (format!("{{{}}}", self.name), format!("redisson_rwlock:{{{}}}", self.name));
        self.raw.cmd(&["EVAL", script, "3", self.name, &tag, &channel, OWNER]).await;
    }
}

/// S-27: a Java reader that entered twice is a reader until both of its holds have gone, by its
/// unlocks or by their time-outs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_java_reader_with_two_holds_keeps_writers_out() {
    let (server, client) = world().await;
    let peer = Peer { raw: server.client(), name: "two" };
    peer.read("500").await;
    peer.read("60000").await;
    let reader = client.rw_lock("two").try_read().await.unwrap().expect("readers share");
    // Its first hold lapses; the second keeps it a reader through our release.
    soon!("lapsed", !peer.raw.exists(&peer.hold_end(1)).await);
    assert!(client.rw_lock("two").try_write().await.unwrap().is_none());
    reader.release().await.unwrap();
    assert!(client.rw_lock("two").try_write().await.unwrap().is_none());
    assert!(left(peer.raw.pttl("two").await) > secs(30), "its lease was cut");
    let writer = writing(&client, "two");
    listening(&server, "two", 1).await;
    peer.unlock_read().await;
    peer.unlock_read().await;
    got(writer, PROMPTLY).await.release().await.unwrap();
    nothing_left(&server, "two").await;
}

/// S-27: a Java reader that died without a release is no reader once its time-out has passed, though ours, or the writer's
/// lease that Redisson leaves on the hash when it downgrades, keep the hash alive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_java_reader_expires_alone() {
    let (server, client) = world().await;
    for beside_ours in [true, false] {
        let peer = Peer { raw: server.client(), name: "dead" };
        peer.read("400").await;
        peer.raw.cmd(&["PEXPIRE", "dead", "60000"]).await;
        let lock = client.rw_lock("dead");
        assert!(lock.try_write().await.unwrap().is_none());
        if beside_ours {
            let reader = lock.read().await.unwrap();
            soon!("lapsed", !peer.raw.exists(&peer.hold_end(1)).await);
            reader.release().await.unwrap();
            assert!(!peer.raw.exists("dead").await, "kept for the dead");
        }
        got(writing(&client, "dead"), PROMPTLY).await.release().await.unwrap();
        nothing_left(&server, "dead").await;
    }
}
