//! Fault 40: the server keeps all writes back for two seconds, as it does during a failover (CLIENT PAUSE WRITE), while
//! leases end.
//!
//! - Promised: the server grants nothing meanwhile; a wait ends when it has to, with an error of the store; every lock
//!   within 3 s.
//! - Seen: 0.2 to 0.5 s; no grant in the two seconds.

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lock_recovers() {
    let mut drill = Drill::start().await;
    let pause = secs(2);
    let freeze = async |drill: &mut Drill| {
        let raw = drill.server.client();
        let until = Instant::now() + pause;
        raw.cmd(&["CLIENT", "PAUSE", &pause.as_millis().to_string(), "WRITE"]).await;
        let start = Instant::now();
        let limit = waits(ANSWER);
        for kind in EXCLUSIVE {
            let acquire = take(&drill.near.client, kind, "free all the while", limit);
            let error = timeout(ANSWER + secs(1), acquire).await.expect("waits on").unwrap_err();
            let (kind, text) = kind_and_text(&error);
            assert!(kind.is_transient(), "{kind:?}: {text}");
        }
        let [near, far] = [drill.near.grants(), drill.far.grants()];
        assert!(start.elapsed() < pause, "too slow a machine: nothing was tested");
        sleep((until - ANSWER / 5).saturating_duration_since(Instant::now())).await;
        assert_eq!(
            [drill.near.grants(), drill.far.grants()],
            [near, far],
            "granted by a frozen server"
        );
        sleep(until.saturating_duration_since(Instant::now())).await;
    };
    drill.fault(May::Delay, freeze).await;
    drill.end(secs(3)).await;
}
