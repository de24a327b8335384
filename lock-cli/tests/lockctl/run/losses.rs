//! Losses of the lock: forced, by an outage, by a pause; and a server that is away.

use std::time::Duration;

use lock_tests::{eventually, patience};
use rustix::process::Signal;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep};

use super::world::{Running, SLEEP, gone, is_held, script};
use crate::world::{SOON, World, lockctl};

/// A command that says when it gets SIGTERM, and ends at once. Its shell says nothing of its `sleep`.
const POLITE: &str = "exec 2>/dev/null; trap 'echo terminated; exit 0' TERM; echo ready; while :; do sleep 0.02; done";

/// One that does not end for it.
const STUBBORN: &str = "trap '' TERM; sleep 600 & echo $$ $!; wait";

fn start(world: &World, options: &[&str], text: &str) -> Running {
    Running::start(&[&["--url", &*world.server.url()], &script(options, text)[..]].concat())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forced_release_ends_the_command() {
    let world = World::start().await;
    let lease = ["--lease", "900ms"];
    let mut polite = start(&world, &lease, POLITE);
    assert_eq!(polite.line().await, "ready");
    assert_eq!(world.run(&["release", "backup", "--yes"]).await.code, 0);
    assert_eq!(polite.line().await, "terminated");
    polite
        .end()
        .await
        .failed(76, "no longer knows it as the owner; its command was ended by SIGTERM");

    let mut stubborn = start(&world, &lease, STUBBORN);
    let pids = stubborn.pids().await;
    assert_eq!(world.run(&["release", "backup", "--yes"]).await.code, 0);
    stubborn.end().await.failed(76, "was lost");
    gone(&pids).await;
}

/// An outage that is longer than the lease ends the command before the lease is over, by force if needed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_ends_the_command_within_the_lease() {
    let world = World::start().await;
    let lease = Duration::from_secs(3);
    let mut polite = start(&world, &["--lease", "3s"], POLITE);
    assert_eq!(polite.line().await, "ready");
    world.server.pause();
    assert_eq!(polite.line().await, "terminated");
    // The release is tried meanwhile.
    world.server.resume();
    polite.end().await.failed(76, "cannot be renewed; its command was ended by SIGTERM");
    eventually(SOON, "it is free", async || !is_held(&world.billing).await).await;

    let mut stubborn = start(&world, &["--lease", "3s"], STUBBORN);
    let pids = stubborn.pids().await;
    world.server.pause();
    // The last renewal was before this.
    let paused = Instant::now();
    gone(&pids).await;
    let ended = paused.elapsed();
    assert!(ended < lease, "it ended after {ended:?}, and another holder had the lock by then");
    assert!(ended > lease / 3, "it had {ended:?}, and renewals had no time to succeed");
    world.server.resume();
    stubborn.end().await.failed(76, "cannot be renewed");
}

/// A short outage is no loss, and a release that finds no server is said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_outage_is_survived() {
    let world = World::start().await;
    let until_a_line = "echo $$; read line; exit 5";
    let mut running = start(&world, &["--lease", "4s"], until_a_line);
    running.pids().await;
    world.server.pause();
    // Beyond the next renewal.
    sleep(Duration::from_millis(1_800)).await;
    world.server.resume();
    eventually(SOON, "it is renewed", async || {
        let left = world.billing.admin().inspect("backup").await.unwrap().remaining;
        left.is_some_and(|left| left > Duration::from_secs(3))
    })
    .await;
    assert!(running.runs());
    running.stdin.as_mut().unwrap().write_all(b"end\n").await.unwrap();
    let ran = running.end().await;
    assert_eq!((ran.code, &*ran.stderr), (5, ""), "{ran:?}");

    let mut running = start(&world, &["--lease", "20s"], until_a_line);
    running.pids().await;
    world.server.pause();
    running.stdin.as_mut().unwrap().write_all(b"end\n").await.unwrap();
    running.end().await.failed(5, "the lock stays held until its lease ends");
    world.server.resume();
}

/// While `lockctl` is stopped, another holder may get the lock. It finds that out before anything else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_past_the_lease_ends_the_command_at_once() {
    let world = World::start().await;
    let mut running = start(&world, &["--lease", "800ms"], STUBBORN);
    let pids = running.pids().await;
    running.send(Signal::STOP);
    let next = world.billing.mutex("backup").lock().await.unwrap();
    running.send(Signal::CONT);
    let woken = Instant::now();
    gone(&pids).await;
    assert!(woken.elapsed() < patience(Duration::from_secs(1)), "{:?}", woken.elapsed());
    running.end().await.failed(76, "was lost");
    next.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_starts_nothing() {
    let ran = lockctl(&[&["--url", "redis://127.0.0.1:1"], &script(&[], SLEEP)[..]].concat()).await;
    ran.failed(3, "127.0.0.1:1");
    assert_eq!(ran.stdout, "", "the command has run");
    lockctl(&script(&[], SLEEP)).await.failed(2, "--url");
}

/// A command that ends by itself after an unnoticed loss is reported as lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_may_find_the_loss() {
    let world = World::start().await;
    let mut running = start(&world, &["--lease", "1m"], "echo $$; read line");
    running.pids().await;
    assert_eq!(world.run(&["release", "backup", "--yes"]).await.code, 0);
    running.stdin.as_mut().unwrap().write_all(b"end\n").await.unwrap();
    running.end().await.failed(76, "the command had ended by then");
}
