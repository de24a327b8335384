//! Fault 62: one of the three servers of a quorum stands still for two leases.
//!
//! - Promised: the other two are enough, and no acquire waits for the third; what it grants late is given back; every party has the
//!   mutex again within 4 s.
//! - Seen: 0.1 to 0.3 s.

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mutexes_go_on() {
    let world = Masters::start(3, "none").await;
    let mutexes_only = Habits { mutexes_only: true, ..Habits::default() };
    let mut drill = Drill::among(world, mutexes_only).await;
    let hang = async |drill: &mut Drill<Masters>| {
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
    };
    drill.fault(May::Delay, hang).await;
    drill.end(secs(4)).await;
}
