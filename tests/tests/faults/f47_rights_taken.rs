//! Fault 47: the user's rights are cut while locks are used: first to run scripts at all, then to one command inside them.
//!
//! - Promised: every acquire says at once that the user may not, and waits for nothing; no lock is left without an expiry,
//!   wherever the script stopped; every lock within 3 s.
//! - Seen: 0.2 to 0.5 s. The first run found sets of waiters without an expiry; the scripts take the waiter out again
//!   since.

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lock_recovers() {
    let mut drill = Drill::start().await;
    let cut = async |drill: &mut Drill| {
        let raw = drill.server.client();
        for command in ["evalsha", "pexpire"] {
            raw.cmd(&["ACL", "SETUSER", "default", &format!("-{command}")]).await;
            for kind in EXCLUSIVE {
                let acquire = take(&drill.near.client, kind, "refused", waits(SOON));
                let error = timeout(SOON / 2, acquire).await.expect("waits").unwrap_err();
                let (kind, text) = kind_and_text(&error);
                assert_eq!(kind, StoreErrorKind::Denied, "{command}: {text}");
                assert!(text.contains("may not run the lock scripts"), "{command}: {text}");
            }
            sleep(LEASE / 2).await;
            raw.cmd(&["ACL", "SETUSER", "default", &format!("+{command}")]).await;
        }
    };
    drill.fault(May::Delay, cut).await;
    drill.end(secs(3)).await;
}
