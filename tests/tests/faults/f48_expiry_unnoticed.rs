//! Fault 48: the server does not delete what has expired until a client asks for it, so that its events of expiry come late or
//! never (`DEBUG SET-ACTIVE-EXPIRE 0`).
//!
//! - Promised: no client listens to such events; a waiter has the lock of a dead holder when the lease ends, long before
//!   it would ask by itself.
//! - Seen: 0.1 to 0.7 s, with a poll cap of 40 s.

use crate::prelude::*;

drill!(every_lock_recovers, Drill::start(), May::Delay, secs(3), async |drill| {
    let lease = ms(700);
    let raw = drill.server.client();
    raw.cmd(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]).await;
    let client = LockClient::builder().poll_cap(SOON * 2).command_timeout(ANSWER);
    let client = client.connect(&drill.proxy.url()).await.unwrap();
    for kind in EXCLUSIVE {
        let name = format!("dead {kind}");
        let dead = take(&drill.near.client, kind, &name, fixed(lease)).await.unwrap();
        let (start, left) = (Instant::now(), dead.remaining());
        let acquire = take(&client, kind, &name, waits(SOON));
        let next = acquire.await.unwrap();
        let waited = start.elapsed();
        eprintln!("{kind} after {waited:?}");
        assert!(waited >= left, "{kind}: {waited:?}");
        next.release().await.unwrap();
        assert!(dead.release().await.unwrap_err().is_lost());
    }
    let channels: Vec<String> = raw.get(&["PUBSUB", "CHANNELS"]).await;
    assert!(channels.iter().all(|channel| !channel.starts_with("__key")), "{channels:?}");
    let patterns: u64 = raw.get(&["PUBSUB", "NUMPAT"]).await;
    assert_eq!(patterns, 0, "subscriptions to patterns");
});
