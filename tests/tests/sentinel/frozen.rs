//! A master that is stopped until its successor is promoted, and goes on right after that: whatever it
//! grants then, nobody may believe (S-12, S-23).
//!
//! How the old master's answers and the news of its successor meet is a matter of milliseconds, so these
//! tests repeat that. `LOCK_TESTS_ROUNDS` says how often, for runs by hand.

use std::sync::Arc;
use std::time::Duration;

use lock_runtime::{Lease, LockClient, LockOptions, Wait};
use lock_tests::RedisServer;
use lock_tests::history::{History, Op, Recorder};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::kinds::take;
use super::world::{NAME, SOON, World, builder};

/// The kinds of which one at a time has the lock.
const EXCLUSIVE: [&str; 4] = ["mutex", "fair", "write", "semaphore"];

fn rounds() -> usize {
    let wanted = std::env::var("LOCK_TESTS_ROUNDS").ok();
    wanted.map_or(2, |wanted| wanted.parse().expect("LOCK_TESTS_ROUNDS is a number"))
}

/// Everybody hears of the successor, sooner or later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_hold_a_lock_when_the_old_master_goes_on() {
    repeat(Sentinels::Run).await;
}

/// The sentinels stop as soon as they have named the successor: who has not heard by then, does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_when_the_sentinels_stop() {
    repeat(Sentinels::Stop).await;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sentinels {
    Run,
    Stop,
}

async fn repeat(sentinels: Sentinels) {
    let mut found = Vec::new();
    for round in 0..rounds() {
        // As long as a silent connection is put up with, and far less.
        let down_after = [2_000, 500][round % 2];
        let violations = play(sentinels, down_after).await;
        found.extend(violations.into_iter().map(|text| format!("round {round}: {text}")));
    }
    assert!(found.is_empty(), "{} in {} rounds:\n{}", found.len(), rounds(), found.join("\n"));
}

/// One round: what was wrong in it.
async fn play(sentinels: Sentinels, down_after: u64) -> Vec<String> {
    let world = World::new(1).await;
    world.sentinels.publish_every(Duration::from_secs(5)).await;
    for node in 0..3 {
        let set = ["SENTINEL", "SET", NAME, "down-after-milliseconds", &down_after.to_string()];
        world.sentinels.client(node).cmd(&set).await;
    }
    let dir = tempfile::tempdir().unwrap();
    let recorder = Arc::new(Recorder::create(dir.path()).unwrap());
    let (stop, stopped) = watch::channel(false);
    let mut tasks = Vec::new();
    for timeout in [1, 4, 8] {
        // With a short one calls are made again while the master is stopped, with a long one they are not.
        let builder = builder().command_timeout(Duration::from_secs(timeout));
        let client = world.client_of(builder).await;
        for kind in EXCLUSIVE {
            let task = Task { client: client.clone(), kind, number: tasks.len() as u64 };
            tasks.push(tokio::spawn(task.run(Arc::clone(&recorder), stopped.clone())));
        }
    }
    sleep(Duration::from_millis(fastrand::u64(300..600))).await;
    world.master().pause();
    let promoted = world.promoted().await;
    if sentinels == Sentinels::Stop {
        (0..3).for_each(|node| world.sentinels.pause(node));
    }
    sleep(Duration::from_millis(fastrand::u64(20..80))).await;
    world.master().resume();
    sleep(Duration::from_millis(2_000)).await;
    if sentinels == Sentinels::Stop {
        (0..3).for_each(|node| world.sentinels.resume(node));
    }
    served(promoted).await;
    stop.send(true).unwrap();
    join(tasks).await;
    let history = History::load(dir.path()).unwrap();
    let violations = history.exclusion().into_iter().chain(history.token_order());
    violations.map(|violation| violation.to_string()).collect()
}

/// Waits until the successor has served every kind.
async fn served(promoted: &RedisServer) {
    for kind in EXCLUSIVE {
        let counter = format!("redisson_lock_token:{{{kind}}}");
        let before = promoted.client().cmd(&["GET", &counter]).await;
        lock_tests::eventually(SOON, "the successor grants", async || {
            promoted.client().cmd(&["GET", &counter]).await != before
        })
        .await;
    }
}

async fn join(tasks: Vec<JoinHandle<()>>) {
    for task in tasks {
        timeout(SOON * 2, task).await.expect("hung").unwrap();
    }
}

/// Takes a lock over and over.
struct Task {
    client: LockClient,
    kind: &'static str,
    number: u64,
}

impl Task {
    async fn run(self, recorder: Arc<Recorder>, stopped: watch::Receiver<bool>) {
        let record = |op| recorder.record(self.number, self.kind, op);
        while !*stopped.borrow() {
            // The short ones end while the master is stopped, and may be renewed when it goes on.
            let lease = Lease::Watchdog(Duration::from_secs(fastrand::u64(2..7)));
            // And a call that does not wait for long has the connection suspected while others wait on.
            let wait = if fastrand::bool() { Wait::UpTo(SOON * 2) } else { Wait::UpTo(SOON / 30) };
            let options = LockOptions::builder().lease(lease).wait(wait).build().unwrap();
            record(Op::AcquireInvoked);
            let Ok(guard) = take(&self.client, self.kind, self.kind, options).await else {
                record(Op::NotAcquired);
                sleep(Duration::from_millis(20)).await;
                continue;
            };
            record(Op::Acquired { token: Some(guard.token().get()), valid_until: None });
            let work = sleep(Duration::from_millis(if fastrand::bool() { 20 } else { 2_000 }));
            let end = if guard.run(work).await.is_ok() { Op::ReleaseInvoked } else { Op::Lost };
            record(end);
            // That it was lost, or that the store was away, says nothing of exclusion.
            let _ = guard.release().await;
        }
    }
}
