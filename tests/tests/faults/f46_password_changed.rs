//! Fault 46: the server's password is changed and all connections are cut; later the old password counts again.
//!
//! - Promised: every acquire says at once that the password is refused; a client tries it again at most a few times a second,
//!   and works as soon as it counts: every lock within 4 s.
//! - Seen: 0.4 to 0.8 s after the old password counts; 5 attempts in the second before.

use crate::prelude::*;

drill!(
    every_lock_recovers,
    Drill::on(RedisServer::builder().password("old")),
    May::Delay,
    secs(4),
    async |drill| {
        let raw = drill.server.client();
        raw.cmd(&["CONFIG", "SET", "requirepass", "new"]).await;
        let (accepted, start) = (drill.proxy.accepted(), Instant::now());
        drill.server.client_kill(ClientType::Normal).await;
        drill.server.client_kill(ClientType::PubSub).await;
        for kind in EXCLUSIVE {
            let refused = async || {
                let acquire = take(&drill.far.client, kind, "refused", waits(ANSWER)).await;
                // The first may have been on its way when the connection was cut.
                acquire.is_err_and(|error| {
                    let (kind, text) = kind_and_text(&error);
                    kind == StoreErrorKind::Denied && text.contains("password")
                })
            };
            eventually(SOON, "the password is refused", refused).await;
        }
        let error = LockClient::connect(&drill.server.url()).await.unwrap_err();
        assert_eq!(kind_and_text(&error).0, StoreErrorKind::Denied);
        sleep(LEASE).await;
        let tries = drill.proxy.accepted() - accepted;
        let most = 2 + 5 * usize::try_from(start.elapsed().as_secs() + 1).unwrap();
        eprintln!("{tries} connections in {:?}", start.elapsed());
        assert!(tries <= most, "{tries} connections in {:?}", start.elapsed());
        raw.cmd(&["CONFIG", "SET", "requirepass", "old"]).await;
    }
);
