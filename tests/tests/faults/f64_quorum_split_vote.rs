//! Fault 64: twenty clients ask the three servers of a quorum for one mutex at the same time, and each server hears of them in
//! another order.
//!
//! - Promised: clients without a majority give everything back and ask again after pauses of random lengths: one of them always
//!   gets the mutex, and all do within 10 s.
//! - Seen: all twenty have had the mutex after 1.4 to 2.5 s.

use crate::prelude::*;

drill!(a_split_vote_is_repeated, Drill::of_a_quorum(3), May::Delay, secs(4), async |drill| {
    let releases = join_all(
        drill.nodes.iter().map(|node| node.subscribe_log("redisson_lock__channel:{split}")),
    );
    let releases = releases.await;
    drill.proxies.iter().for_each(|proxy| proxy.mix_requests(ms(20)));
    let clients = (0..20).map(async |_| {
        let config = LockConfig::from_toml(&drill.far_config()).unwrap();
        LockClient::from_config(config).await.unwrap()
    });
    let clients = join_all(clients).await;
    let start = Instant::now();
    let turns = clients.iter().map(async |client| {
        let held = client.mutex("split").with(watched(SOON)).lock().await.unwrap();
        held.release().await.unwrap();
    });
    timeout(secs(10), join_all(turns)).await.expect("no majority for ever");
    eprintln!("20 clients in {:?}", start.elapsed());
    drill.proxies.iter().for_each(Proxy::pass);
    let released: usize = releases.iter().map(|heard| heard.payloads().len()).sum();
    assert!(released > 20 * 3, "no vote was split: {released} holds of single servers released");
});
