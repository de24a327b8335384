//! A master that is stopped until its successor is promoted, and goes on right after that: whatever it
//! grants then, nobody may believe (S-12, S-23).
//!
//! How the old master's answers and the news of its successor meet is a matter of milliseconds, so the
//! test repeats that.

use lock_tests::history::{May, Recorder, Rules, Share, Violation};
use lock_tests::witness::Witness;

use super::world::{NAME, World, builder};
use crate::prelude::*;

/// More than anything here takes on a busy machine.
const BOUND: Duration = secs(60);

/// The kinds of which one at a time has the lock.
const EXCLUSIVE: [&str; 4] = ["mutex", "fair", "write", "semaphore"];

const FAULT: &str = "the master stands still";

/// Everybody hears of the successor, sooner or later; or the sentinels stop as soon as they have named it, and who has not heard by
/// then, does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_hold_a_lock_when_the_old_master_goes_on() {
    let mut found = Vec::new();
    // As long as a silent connection is put up with, and far less.
    for (down_after, sentinels_stop) in [2_000, 500].map(|it| [(it, false), (it, true)]).concat() {
        let violations = play(sentinels_stop, down_after).await;
        let told =
            |text| format!("down after {down_after} ms, they stop: {sentinels_stop}: {text}");
        found.extend(violations.into_iter().map(told));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// One round: what was wrong in it. Not that a hold was lost, or that its release found none: a master that is replaced takes along what
/// its replicas had not got yet, and the holder is told.
async fn play(sentinels_stop: bool, down_after: u64) -> Vec<String> {
    let world = World::new(1).await;
    world.sentinels.publish_every(secs(5)).await;
    for node in 0..3 {
        let set = ["SENTINEL", "SET", NAME, "down-after-milliseconds", &down_after.to_string()];
        world.sentinels.client(node).cmd(&set).await;
    }
    let dir = tempfile::tempdir().unwrap();
    let recorder = Arc::new(Recorder::create(dir.path()).unwrap());
    let (stop, mut tasks) = (watch::Sender::new(false), Vec::new());
    for timeout in [1, 4, 8] {
        // With a short one calls are made again while the master is stopped, with a long one they are not.
        let client = world.client_of(builder().command_timeout(secs(timeout))).await;
        for kind in EXCLUSIVE {
            let witness = Witness::new(&recorder, tasks.len() as u64, kind, Share::Exclusive);
            let takes = takes(client.clone(), kind, witness, stop.subscribe());
            tasks.push(lock_tests::spawn(takes));
        }
    }
    sleep(ms(fastrand::u64(300..600))).await;
    recorder.record_fault(FAULT, May::Delay);
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
    recorder.record_end_of_fault(FAULT);
    stop.send_replace(true);
    timeout(BOUND, joined(tasks)).await.expect("hung");
    let report = History::load(dir.path()).unwrap().check(&Rules::default());
    assert!(report.claims > 0 && report.faults > 0, "{report}");
    let told = |it: &&Violation| matches!(it, Violation::Lost(_) | Violation::NotReleased(..));
    report.violations.iter().filter(|it| !told(it)).map(ToString::to_string).collect()
}

/// Takes the lock over and over until it is stopped.
async fn takes(
    client: LockClient,
    kind: &'static str,
    witness: Witness,
    stopped: watch::Receiver<bool>,
) {
    while !*stopped.borrow() {
        // The short ones end while the master is stopped, and may be renewed when it goes on.
        let lease = Lease::Watchdog(secs(fastrand::u64(2..7)));
        // And a call that does not wait for long has the connection suspected while others wait on.
        let wait = if fastrand::bool() { BOUND } else { secs(1) };
        let options = LockOptions::new().lease(lease).wait(wait);
        let Ok(mut held) = witness.acquire(take(&client, kind, kind, options)).await else {
            sleep(ms(20)).await;
            continue;
        };
        held.work(ms(if fastrand::bool() { 20 } else { 2_000 })).await;
        // That it was lost, or that the store was away, is in the history.
        let _ = held.release().await;
    }
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
