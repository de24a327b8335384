//! A master that is stopped until its successor is promoted, and goes on right after that: whatever it
//! grants then, nobody may believe (S-12, S-23).
//!
//! How the old master's answers and the news of its successor meet is a matter of milliseconds, so these
//! tests repeat that.

use super::world::{NAME, World, builder};
use crate::prelude::*;
use crate::support::takers::{EXCLUSIVE, Takers, rounds, violations};

/// Everybody hears of the successor, sooner or later; or the sentinels stop as soon as they have named it, and who has not heard by
/// then, does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_hold_a_lock_when_the_old_master_goes_on() {
    let mut found = Vec::new();
    for (round, sentinels_stop) in (0..rounds()).flat_map(|it| [(it, false), (it, true)]) {
        // As long as a silent connection is put up with, and far less.
        let violations = play(sentinels_stop, [2_000, 500][round % 2]).await;
        let told = |text| format!("round {round}, sentinels stop: {sentinels_stop}: {text}");
        found.extend(violations.into_iter().map(told));
    }
    assert!(found.is_empty(), "{} in {} rounds:\n{}", found.len(), rounds(), found.join("\n"));
}

/// One round: what was wrong in it.
async fn play(sentinels_stop: bool, down_after: u64) -> Vec<String> {
    let world = World::new(1).await;
    world.sentinels.publish_every(secs(5)).await;
    for node in 0..3 {
        let set = ["SENTINEL", "SET", NAME, "down-after-milliseconds", &down_after.to_string()];
        world.sentinels.client(node).cmd(&set).await;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut takers = Takers::new(dir.path());
    for timeout in [1, 4, 8] {
        // With a short one calls are made again while the master is stopped, with a long one they are not.
        let builder = builder().command_timeout(secs(timeout));
        let client = world.client_of(builder).await;
        EXCLUSIVE.iter().for_each(|kind| takers.add(&client, kind, kind));
    }
    sleep(ms(fastrand::u64(300..600))).await;
    takers.fault_begins("the master stands still");
    world.master().pause();
    let promoted = world.promoted().await;
    if sentinels_stop {
        (0..3).for_each(|node| world.sentinels.pause(node));
    }
    sleep(ms(fastrand::u64(20..80))).await;
    world.master().resume();
    sleep(ms(2_000)).await;
    if sentinels_stop {
        (0..3).for_each(|node| world.sentinels.resume(node));
    }
    served(promoted).await;
    takers.fault_ends("the master stands still");
    takers.join().await;
    violations(dir.path())
}

/// Waits until the successor has served every kind.
async fn served(promoted: &RedisServer) {
    for kind in EXCLUSIVE {
        let counter = format!("redisson_lock_token:{{{kind}}}");
        // Sentinels close the connections to a server whose role they change.
        let tokens = async || promoted.client().try_cmd(&["GET", &counter]).await.ok();
        let mut before = None;
        soon!("the successor answers", {
            before = tokens().await;
            before.is_some()
        });
        soon!("the successor grants", tokens().await.is_some_and(|now| before != Some(now)));
    }
}
