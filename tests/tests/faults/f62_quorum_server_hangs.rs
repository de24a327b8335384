//! Fault 62: one of the three servers of a quorum stands still for two leases.
//!
//! - Promised: the other two are enough, and no acquire waits for the third; what it grants late is given back; every party has the
//!   mutex again within 4 s.
//! - Seen: 0.1 to 0.3 s.

use crate::prelude::*;

drill!(mutexes_go_on, Drill::of_a_quorum(3), May::Delay, secs(4), async |drill| {
    let config = LockConfig::from_toml(&drill.far_config()).unwrap();
    let client = LockClient::from_config(config).await.unwrap();
    drill.nodes[0].pause();
    let start = Instant::now();
    drill.near.works().await;
    drill.far.works().await;
    assert!(
        start.elapsed() < patience(secs(5)),
        "the third server is waited for: {:?}",
        start.elapsed()
    );
    // Longer than the rest of this takes.
    let held = client.mutex("late").with(watched(SOON * 4)).lock().await.unwrap();
    held.release().await.unwrap();
    sleep(2 * LEASE).await;
    drill.nodes[0].resume();
    let hung = drill.nodes[0].client();
    let granted = async || hung.exists("redisson_lock_token:{late}").await;
    eventually(SOON, "the third server grants it late", granted).await;
    eventually(SOON, "it is given back", async || !hung.exists("late").await).await;
});
