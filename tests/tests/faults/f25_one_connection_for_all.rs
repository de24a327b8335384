//! Fault 25: 500 tasks use one client at once, more than any pool has connections.
//!
//! - Promised: there is no pool to exhaust: one connection carries all, requests that queue are sent together, and renewals
//!   are not late.
//! - Seen: no lock lost; the number of connections stays.

use crate::prelude::*;

drill!(renewals_go_on, async |drill| {
    let connections = connections(drill).await;
    let lease = LEASE * 3;
    let held = hold_each(&drill.near.client, lease).await;
    let since = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..500 {
        let client = drill.near.client.clone();
        tasks.spawn(async move {
            let lock = client.mutex(format!("many:{number}")).with(watched(SOON));
            while since.elapsed() < LEASE * 7 / 4 {
                lock.lock().await.unwrap().release().await.unwrap();
            }
        });
    }
    timeout(SOON, tasks.join_all()).await.expect("all have had their lock");
    all_are_renewed(&held, since.elapsed().min(LEASE * 3 / 2), lease);
    assert_eq!(self::connections(drill).await, connections);
    release_each(held).await;
});

/// How many connections the client has.
async fn connections(drill: &Drill) -> usize {
    let name = format!("name=lock-runtime:{}:", drill.near.client.id());
    let list: String = drill.server.client().get(&["CLIENT", "LIST"]).await;
    list.lines().filter(|line| line.contains(&name)).count()
}
