//! Fault 41: the server takes no more connections (`maxclients`), and a client loses the one that it has.
//!
//! - Promised: the connections that exist go on; the client without one says what is wrong, tries again at most a few times a
//!   second, and works as soon as there is room: every lock within 4 s.
//! - Seen: the client without a connection 0.6 to 1 s after there is room; the others do not notice.

use crate::prelude::*;

drill!(every_lock_recovers, Drill::start(), May::Delay, secs(4), async |drill| {
    let raw = drill.server.client();
    raw.cmd(&["CONFIG", "SET", "maxclients", "1"]).await;
    let (accepted, start) = (drill.proxy.accepted(), Instant::now());
    drill.proxy.reset_all();
    for kind in EXCLUSIVE {
        let acquire = take(&drill.far.client, kind, "not to be had", waits(ANSWER));
        let (kind, text) = kind_and_text(&acquire.await.unwrap_err());
        assert_eq!(kind, StoreErrorKind::Unavailable, "{text}");
        assert!(text.contains("too many connections"), "{text}");
    }
    let error = LockClient::connect(&drill.server.url()).await.unwrap_err();
    let (kind, text) = kind_and_text(&error);
    assert_eq!(kind, StoreErrorKind::NotReady, "{text}");
    assert!(text.contains("too many connections"), "{text}");
    drill.near.works().await;
    let tries = drill.proxy.accepted() - accepted;
    let most = 2 + 5 * usize::try_from(start.elapsed().as_secs() + 1).unwrap();
    assert!(tries <= most, "{tries} connections in {:?}", start.elapsed());
    raw.cmd(&["CONFIG", "SET", "maxclients", "1000"]).await;
});
