//! Redisson's read/write lock on the same key, command by command as its scripts do it.

use crate::kinds::rw::*;

/// Where a thread of a Java process keeps the end of its read hold.
const HOLD_END: &str = "{dead}:8c5e9a52-6a1b-4c3d-9e6f-0123456789ab:57:rwlock_timeout:1";

/// S-27: a Java reader that died without a release is no reader once its time-out has passed, though ours, or the writer's
/// lease that Redisson leaves on the hash when it downgrades, keep the hash alive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_java_reader_expires_alone() {
    let (server, client) = world().await;
    let raw = server.client();
    let owner =
        HOLD_END.strip_prefix("{dead}:").unwrap().strip_suffix(":rwlock_timeout:1").unwrap();
    for beside_ours in [true, false] {
        raw.cmd(&["HSET", "dead", "mode", "read", owner, "1"]).await;
        raw.cmd(&["SET", HOLD_END, "1", "PX", "400"]).await;
        raw.cmd(&["PEXPIRE", "dead", "60000"]).await;
        let lock = client.rw_lock("dead");
        assert!(lock.try_write().await.unwrap().is_none());
        if beside_ours {
            let reader = lock.read().await.unwrap();
            soon!("lapsed", !raw.exists(HOLD_END).await);
            reader.release().await.unwrap();
            assert!(!raw.exists("dead").await, "kept for the dead");
        }
        got(writing(&client, "dead"), PROMPTLY).await.release().await.unwrap();
        nothing_left(&server, "dead").await;
    }
}
