//! Fault 36: the server loads its data and answers LOADING to all else (DEBUG RELOAD).
//!
//! - Promised: acquires, renewals and releases are repeated until it has loaded or time is over; holds with enough lease are
//!   not lost; every lock within 3 s.
//! - Seen: that; every lock within 0.5 s.

use crate::each::remove_filling;
use crate::prelude::*;

/// Enough for the server to look at its connections while it loads them.
const FILL: &str = "for i = 1, 1000 do
  redis.call('SET', 'fill:' .. i, string.rep('x', 1024), 'EX', 60)
end";

drill!(every_lock_recovers, Drill::start(), May::Delay, secs(3), async |drill| {
    let raw = drill.server.client();
    raw.cmd(&["EVAL", FILL, "0"]).await;
    raw.cmd(&["CONFIG", "SET", "rdbcompression", "no"]).await;
    raw.cmd(&["CONFIG", "SET", "loading-process-events-interval-bytes", "1024"]).await;
    let lease = LEASE * 4;
    let held = hold_each(&drill.near.client, lease).await;
    let since = Instant::now();
    raw.cmd(&["CONFIG", "SET", "key-load-delay", "10000"]).await;
    let operator = RawClient::new(&drill.server.url());
    let reload = tokio::spawn(async move { operator.try_cmd(&["DEBUG", "RELOAD"]).await });
    let loads =
        async || raw.try_cmd(&["PING"]).await.is_err_and(|error| error.code() == Some("LOADING"));
    eventually(SOON, "it loads", loads).await;
    let acquired = drill.near.client.mutex("other").with(watched(LEASE)).try_lock().await;
    let Err(LockError::Store(error)) = acquired else { panic!("{acquired:?}") };
    assert_eq!(error.kind(), StoreErrorKind::NotReady, "{error:?}");
    sleep(ANSWER * 2).await;
    raw.cmd(&["CONFIG", "SET", "key-load-delay", "0"]).await;
    timeout(SOON, reload).await.expect("loads for ever").unwrap().unwrap();
    // Each has been renewed by then, or is lost.
    sleep((lease + LEASE / 2).saturating_sub(since.elapsed())).await;
    release_each(held).await;
    remove_filling(&raw).await;
});
