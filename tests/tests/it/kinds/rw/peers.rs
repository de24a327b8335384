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

    async fn write(&self, lease: &str) {
        let field = format!("{OWNER}:write");
        self.raw.cmd(&["HSET", self.name, "mode", "write", &field, "1"]).await;
        self.raw.cmd(&["PEXPIRE", self.name, lease]).await;
    }

    async fn unlock_write(&self) {
        self.raw.cmd(&["DEL", self.name]).await;
        let channel = format!("redisson_rwlock:{{{}}}", self.name);
        self.raw.cmd(&["PUBLISH", &channel, "1"]).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_java_readers_unlock_leaves_our_readers() {
    let (server, client, other) = world_of_two().await;
    let peer = Peer { raw: server.client(), name: "ours" };
    peer.read("30000").await;
    let lock = client.rw_lock("ours");
    let (one, two) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    peer.unlock_read().await;
    assert!(left(peer.raw.pttl("ours").await) > secs(20));
    assert!(other.rw_lock("ours").try_write().await.unwrap().is_none());
    drop(one);
    two.release().await.unwrap();
    nothing_left(&server, "ours").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_java_writers_unlock_wakes_our_readers() {
    let (server, client, other) = world_of_two().await;
    let peer = Peer { raw: server.client(), name: "jw" };
    peer.write("60000").await;
    let waiters = [reading(&client, "jw"), reading(&client, "jw"), reading(&other, "jw")];
    listening(&server, "jw", 2).await;
    assert!(other.rw_lock("jw").try_write().await.unwrap().is_none());
    peer.unlock_write().await;
    let released = Instant::now();
    drop(all_got(waiters, PROMPTLY).await);
    assert!(released.elapsed() < at_once(), "{:?}", released.elapsed());
    nothing_left(&server, "jw").await;
}

/// S-27: a Java reader does not know of announcements, and comes in between; our writer is told when
/// it leaves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_writer_waits_for_a_java_reader() {
    let (server, client) = world().await;
    let peer = Peer { raw: server.client(), name: "jr" };
    let reader = client.rw_lock("jr").read().await.unwrap();
    let writer = writing(&client, "jr");
    announced(&server, "jr", 1).await;
    peer.read("60000").await;
    reader.release().await.unwrap();
    sleep(ms(100)).await;
    assert!(!writer.is_finished(), "a reader was overlooked");
    peer.unlock_read().await;
    got(writer, at_once()).await.release().await.unwrap();
    nothing_left(&server, "jr").await;
}

/// S-27: Redisson leaves the writer's lease on the hash when it downgrades; what counts is whether a
/// reader is alive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_java_reader_that_died_after_its_downgrade_is_none() {
    let (server, client) = world().await;
    let peer = Peer { raw: server.client(), name: "down" };
    peer.read("400").await;
    peer.raw.cmd(&["PEXPIRE", "down", "60000"]).await;
    assert!(client.rw_lock("down").try_write().await.unwrap().is_none());
    got(writing(&client, "down"), PROMPTLY).await.release().await.unwrap();
    nothing_left(&server, "down").await;
}

/// S-27: a Java reader that died without a release is no reader once its time-out has passed, though
/// ours keep the hash alive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_java_reader_expires_alone() {
    let (server, client) = world().await;
    let peer = Peer { raw: server.client(), name: "dead" };
    peer.read("400").await;
    let reader = client.rw_lock("dead").read().await.unwrap();
    soon!("lapsed", !peer.raw.exists(&peer.hold_end(1)).await);
    reader.release().await.unwrap();
    assert!(!peer.raw.exists("dead").await, "kept for the dead");
    let writer = client.rw_lock("dead").try_write().await.unwrap().expect("no reader is alive");
    writer.release().await.unwrap();
}
