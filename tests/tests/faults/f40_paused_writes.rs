//! Fault 40: the server keeps all writes back for four seconds, as it does during a failover (CLIENT PAUSE WRITE), while
//! leases end.
//!
//! - Promised: the server grants nothing meanwhile; a wait ends when it has to, with an error of the store; every lock
//!   within 3 s.
//! - Seen: 0.2 to 0.5 s; no script runs in the four seconds. In the first of them, a process hands on what it holds.

use crate::prelude::*;

drill!(every_lock_recovers, Drill::start(), May::Delay, secs(3), async |drill| {
    let pause = LEASE * 4;
    let raw = drill.server.client();
    let until = Instant::now() + pause;
    raw.cmd(&["CLIENT", "PAUSE", &pause.as_millis().to_string(), "WRITE"]).await;
    let scripts = async || drill.server.command_calls().await.get("evalsha").copied();
    let before = scripts().await;
    let refused = EXCLUSIVE.map(async |kind| {
        let acquire = take(&drill.near.client, kind, "free all the while", waits(ANSWER));
        let error = timeout(LEASE * 2, acquire).await.expect("waits on").unwrap_err();
        let (kind, text) = kind_and_text(&error);
        assert!(kind.is_transient(), "{kind:?}: {text}");
    });
    join_all(refused).await;
    sleep((until - pause + LEASE).saturating_duration_since(Instant::now())).await;
    // By now no hold is left that its process could hand on to another task.
    let grants = || [drill.near.grants(), drill.far.grants()];
    let granted = grants();
    sleep((until - ANSWER / 5).saturating_duration_since(Instant::now())).await;
    let after = (grants(), scripts().await);
    assert!(Instant::now() < until, "too slow a machine: nothing was tested");
    assert_eq!(after, (granted, before), "granted by a frozen server");
    sleep(until.saturating_duration_since(Instant::now())).await;
});
