//! Fault 73: one process uses a name as one kind of lock and another process as another kind.
//!
//! - Promised: the second process is told at once that the kinds collide; the first keeps what it holds,
//!   renews it and releases it. The two sides of a read/write lock are one kind.
//! - Seen: for every pair of kinds.

use crate::prelude::*;

const KINDS: [&str; 5] = ["mutex", "fair", "read", "write", "semaphore"];

test_with!(the_second_is_told, RedisServer::start(), async |server| {
    let connect = async || LockClient::connect(&server.url()).await.unwrap();
    let (raw, first, second) = (server.client(), connect().await, connect().await);
    let is_side = |kind: &str| kind == "read" || kind == "write";
    for held in KINDS {
        let asked_as = KINDS.into_iter().filter(|asked| *asked != held);
        for asked in asked_as.filter(|asked| !(is_side(held) && is_side(asked))) {
            let guard = take(&first, held, "name", watched(SOON)).await.unwrap();
            let before = raw.cmd(&["DUMP", "name"]).await;
            let acquire = take(&second, asked, "name", waits(SOON));
            let error = timeout(SOON / 2, acquire).await.expect("it waits").unwrap_err();
            assert!(matches!(error, LockError::KeyCollision { .. }), "{held}, {asked}: {error:?}");
            assert_eq!(raw.cmd(&["DUMP", "name"]).await, before, "{held}, {asked}");
            guard.extend(2 * SOON).await.unwrap();
            guard.release().await.unwrap_or_else(|error| panic!("{held}, {asked}: {error:?}"));
            // A semaphore leaves its free permits for a while.
            raw.cmd(&["FLUSHALL"]).await;
        }
    }
});
