//! Fault 42: messages pile up in the server until it cuts off every subscriber (`client-output-buffer-limit pubsub`).
//!
//! - Promised: the clients connect and subscribe anew and ask for every lock that they wait for; what was in the messages does
//!   not matter; every lock within 3 s.
//! - Seen: 0.1 to 0.3 s, by waiters that would ask by themselves only after two minutes.

use crate::prelude::*;

drill!(every_lock_recovers, Drill::start(), May::Delay, secs(3), async |drill| {
    let raw = drill.server.client();
    raw.cmd(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 64kb 32kb 1"]).await;
    let rubbish = "x".repeat(1 << 20);
    let subscribers = async || {
        let list: String = raw.get(&["CLIENT", "LIST", "TYPE", "pubsub"]).await;
        let ids = list.lines().filter_map(|line| line.split(' ').next());
        ids.map(str::to_owned).collect::<Vec<_>>()
    };
    let idle = Idle::start(&drill.far_config(), &**drill).await;
    idle.delete_locks(&**drill).await;
    let before = subscribers().await;
    assert!(before.len() >= 3, "one of each party: {before:?}");
    eventually(SOON, "they are all cut off", async || {
        let channels: Vec<String> = raw.get(&["PUBSUB", "CHANNELS"]).await;
        for channel in channels {
            raw.cmd(&["PUBLISH", &channel, &rubbish]).await;
        }
        subscribers().await.iter().all(|id| !before.contains(id))
    })
    .await;
    idle.all_acquire().await;
});
