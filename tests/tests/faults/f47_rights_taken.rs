//! Fault 47: the user's rights are cut while locks are used: first to run scripts at all, then to set an expiry inside them.
//!
//! - Promised: every acquire says at once that the user may not, and waits for nothing; no lock is left without an expiry,
//!   wherever the script stopped; every lock within 3 s.
//! - Seen: 0.2 to 0.5 s.

use crate::prelude::*;

drill!(every_lock_recovers, Drill::start(), May::Delay, secs(3), async |drill| {
    let raw = drill.server.client();
    for commands in [&["evalsha"][..], &["pexpire", "pexpireat"]] {
        let set = async |sign: char| {
            for command in commands {
                raw.cmd(&["ACL", "SETUSER", "default", &format!("{sign}{command}")]).await;
            }
        };
        set('-').await;
        for kind in EXCLUSIVE {
            let acquire = take(&drill.near.client, kind, "refused", waits(SOON));
            let error = timeout(SOON / 2, acquire).await.expect("waits").unwrap_err();
            let (kind, text) = kind_and_text(&error);
            assert_eq!(kind, StoreErrorKind::Denied, "{commands:?}: {text}");
            let says = "does not let the user run";
            let says = format!("the server at 127.0.0.1:{} {says}", drill.server.port());
            assert!(text.starts_with(&says), "{commands:?}: {text}");
            assert!(text.contains("The user's rights"), "{commands:?}: {text}");
        }
        sleep(LEASE / 2).await;
        set('+').await;
    }
});
