//! Fault 19: connections are reset again and again, by the network (RST) and by the server (CLIENT KILL), while locks are
//! acquired, renewed and released.
//!
//! - Promised: the client repeats what was on its way; no lock is lost; every lock within 3 s of the last reset.
//! - Seen: that; every lock within 0.7 s.

use crate::prelude::*;

drill!(every_lock_recovers, Drill::start(), May::Delay, secs(3), async |drill| {
    // Connections that do not last are not made anew at once: the last pause may be 2 s.
    let lease = LEASE * 8;
    let kept = Kept::take_for(&drill.far.client, "kept", lease).await;
    let since = Instant::now();
    let client = LockClient::builder().store_patience(SOON).command_timeout(ANSWER);
    let client = client.connect(&drill.proxy.url()).await.unwrap();
    let using = tokio::spawn(async move {
        while since.elapsed() < lease / 2 {
            release_each(hold_each(&client, SOON * 2).await).await;
        }
    });
    while since.elapsed() < lease / 2 {
        drill.proxy.reset_all();
        sleep(ms(37)).await;
        drill.server.client_kill(ClientType::Normal).await;
        sleep(ms(41)).await;
    }
    // Each has been renewed by then, or is lost.
    sleep((lease + LEASE / 2).saturating_sub(since.elapsed())).await;
    kept.release().await;
    timeout(SOON, using).await.expect("the client goes on").unwrap();
});
