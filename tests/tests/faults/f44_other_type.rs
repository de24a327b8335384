//! Fault 44: the application's own data have the name of a lock: a set, a number, a list, a hash of its own.
//!
//! - Promised: every kind says so at once and does not ask again; no lock is acquired, and nothing is changed, not even by a
//!   forced release. A hash without the field `mode` looks to a mutex as if another holder had it, so that waits in vain.
//! - Seen: at once, after one script, and one that gives the request up.

use crate::prelude::*;

test_with!(it_is_a_collision, RedisServer::start(), async |server| {
    let connect = async || LockClient::connect(&server.url()).await.unwrap();
    let (raw, client) = (server.client(), connect().await);
    let warm = client.mutex("warm").lock().await.unwrap();
    warm.release().await.unwrap();
    let data: [&[&str]; 4] = [
        &["SADD", "theirs", "x"],
        &["SET", "theirs", "seven"],
        &["RPUSH", "theirs", "x", "y"],
        // A mutex cannot tell this one from another holder, and waits.
        &["HSET", "theirs", "total", "12.50"],
    ];
    for create in data {
        raw.cmd(create).await;
        let before = raw.cmd(&["DUMP", "theirs"]).await;
        let wait = if create[0] == "HSET" { ms(300) } else { SOON };
        let is_refused = |error: &LockError| match error {
            LockError::KeyCollision { .. } => true,
            LockError::Timeout { .. } => create[0] == "HSET",
            // A busy machine may be too slow for the last request of such a wait.
            LockError::Store(error) => create[0] == "HSET" && error.kind().is_transient(),
            _ => false,
        };
        for kind in ["mutex", "fair", "read", "write", "semaphore"] {
            // A client gives up a refused request after it has told its caller. One of its own for each, that has ended when
            // calls are counted: else these would be among those of a later kind.
            let client = connect().await;
            server.reset_stats().await;
            let acquire = take(&client, kind, "theirs", waits(wait));
            let error = acquire.await.expect_err("acquired what is no lock");
            assert!(is_refused(&error), "{create:?} {kind}: {error:?}");
            client.shutdown(SOON).await;
            let calls = server.command_calls().await;
            assert!(calls["evalsha"] <= 4, "{create:?} {kind}: {calls:?}");
        }
        let several = client.multi_lock(["theirs", "ours"]).with(waits(wait));
        let error = several.lock().await.expect_err("acquired what is no lock");
        assert!(is_refused(&error), "{create:?}: {error:?}");
        assert!(!raw.exists("ours").await, "locked in part");
        let freed = client.admin().force_release("theirs").await;
        assert!(!matches!(freed, Ok(true)), "{create:?}: {freed:?}");
        assert_eq!(raw.cmd(&["DUMP", "theirs"]).await, before, "{create:?}");
        raw.del("theirs").await;
    }
});
