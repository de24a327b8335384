//! Fault 63: one of the three servers of a quorum is killed and comes back without its data, while a client reaches only that
//! one and another.
//!
//! - Promised: with a `restart_guard` the server does not count before all leases of its past have ended, so no client gets a
//!   second majority; every party has the mutex again within 4 s of that.
//! - Seen: 0.2 to 0.5 s; without the guard a second client has the mutex at once.

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_second_majority() {
    // Longer than all leases, in whole seconds, as servers count the time since their start.
    let guard = secs(3);
    let world = Masters::start(3, "3s").await;
    // Until then no server counts, and tasks would wait for a free lock.
    sleep(guard + secs(1)).await;
    let mutexes_only = Habits { mutexes_only: true, ..Habits::default() };
    let mut drill = Drill::among(world, mutexes_only).await;
    let forget = async |drill: &mut Drill<Masters>| {
        drill.proxies[2].refuse();
        drill.proxies[2].reset_all();
        drill.far.works().await;
        let held = drill.far.client.mutex("held").with(fixed(2 * LEASE)).lock().await.unwrap();
        drill.loses_in_part(async { drill.nodes[0].kill() }).await;
        drill.nodes[0].restart().await;
        while !held.is_lost() {
            let second = drill.near.client.mutex("held").with(fixed(LEASE)).try_lock().await;
            assert!(!matches!(second, Ok(Some(_))) || held.is_lost(), "a second majority");
            sleep(ms(20)).await;
        }
        sleep(guard + secs(1)).await;
        drill.proxies[2].pass();
    };
    drill.fault(May::Delay, forget).await;
    drill.end(secs(4)).await;
}
