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
