//! Fault 32: another client's script occupies the server, which answers BUSY to all else.
//!
//! - Promised: acquires, renewals and releases are repeated until the server is free or time is over; holds with enough lease
//!   are not lost, and the script is left alone; every lock within 3 s.
//! - Seen: that; every lock within 0.3 s.

use crate::prelude::*;

drill!(every_lock_recovers, Drill::start(), May::Delay, secs(3), async |drill| {
    drill.server.client().cmd(&["CONFIG", "SET", "lua-time-limit", "10"]).await;
    let lease = LEASE * 4;
    let held = hold_each(&drill.near.client, lease).await;
    let since = Instant::now();
    let other = RawClient::new(&drill.server.url());
    let endless = ["EVAL", "while true do end", "0"];
    let script = tokio::spawn(async move { other.try_cmd(&endless).await });
    let raw = drill.server.client();
    let is_busy =
        async || raw.try_cmd(&["PING"]).await.is_err_and(|error| error.code() == Some("BUSY"));
    eventually(SOON, "it is busy", is_busy).await;
    let name = own_name(Job::Mutex);
    let acquired = drill.near.client.mutex("other").with(watched(LEASE)).try_lock().await;
    let Err(LockError::Store(error)) = acquired else { panic!("{name}: {acquired:?}") };
    assert_eq!(error.kind(), StoreErrorKind::NotReady, "{error:?}");
    let acquire = drill.far.client.mutex("other").with(watched(LEASE));
    let waiting = tokio::spawn(async move { acquire.lock().await });
    sleep(ANSWER * 2).await;
    assert!(is_busy().await, "the script was killed");
    raw.cmd(&["SCRIPT", "KILL"]).await;
    script.await.unwrap().unwrap_err();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    // Each has been renewed by then, or is lost.
    sleep((lease + LEASE / 2).saturating_sub(since.elapsed())).await;
    release_each(held).await;
});
