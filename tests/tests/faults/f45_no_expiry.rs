//! Fault 45: a lock has no expiry: PERSIST while it is held, or a holder that ended between two commands of another program.
//!
//! - Promised: the holder's next renewal gives the lock its expiry back; who waits for a lock whose holder is dead asks at the
//!   poll cap, and gives up when its wait ends; a forced release frees the lock.
//! - Seen: the expiry is back after a third of the lease; a waiter asks 4 to 6 times in 1.2 s with a poll cap of 0.3 s. (The
//!   number at a semaphore's name keeps no expiry then, as Redisson's; its permits are leases all the same.)

use crate::prelude::*;

test_with!(a_renewal_mends_it, RedisServer::start(), async |server| {
    let (raw, client) = (server.client(), LockClient::connect(&server.url()).await.unwrap());
    let lease = 3 * LEASE;
    for kind in ["mutex", "fair", "read", "write"] {
        let guard = take(&client, kind, kind, watched(lease)).await.unwrap();
        assert!(raw.get::<bool>(&["PERSIST", kind]).await, "it had no expiry");
        let ends = async || matches!(raw.pttl(kind).await, Ttl::Left(left) if left <= lease);
        eventually(SOON, &format!("{kind} ends again"), ends).await;
        assert!(!guard.is_lost(), "{kind}");
        guard.release().await.unwrap();
    }
});

test_with!(a_dead_holder_is_waited_for_and_freed, RedisServer::start(), async |server| {
    let cap = ms(300);
    let builder = LockClient::builder().poll_cap(cap);
    let (raw, client) = (server.client(), builder.connect(&server.url()).await.unwrap());
    let dead = "6f1c2a54-0000-4000-8000-000000000000:17";
    for (kind, fields) in [
        ("mutex", &[dead, "1"][..]),
        ("fair", &[dead, "1", "mode", "fair"]),
        ("write", &[&format!("{dead}:write"), "1", "mode", "write"]),
    ] {
        raw.cmd(&[&["HSET", kind], fields].concat()).await;
        server.reset_stats().await;
        let start = Instant::now();
        let error = take(&client, kind, kind, waits(4 * cap)).await.unwrap_err();
        let waited = start.elapsed();
        assert!(matches!(error, LockError::Timeout { .. }), "{kind}: {error:?}");
        assert!(waited >= 4 * cap && waited < 4 * cap + secs(1), "{kind}: {waited:?}");
        let asked = server.command_calls().await["evalsha"];
        assert!((3..=12).contains(&asked), "{kind}: asked {asked} times in {waited:?}");
        let waiter = tokio::spawn({
            let client = client.clone();
            async move { take(&client, kind, kind, waits(SOON)).await }
        });
        let listens = async || !raw.lock_channels().await.is_empty();
        eventually(SOON, "it waits", listens).await;
        assert!(client.admin().force_release(kind).await.unwrap());
        timeout(SOON, waiter).await.expect("not freed").unwrap().unwrap().release().await.unwrap();
    }
});
