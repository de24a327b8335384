//! How a command starts and ends: exit codes, environment, streams, and who else has the lock.

use std::fs;
use std::time::Duration;

use lock_tests::eventually;
use rustix::process::Signal;
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use super::world::{Running, SLEEP, is_held, script};
use crate::world::{World, command, lockctl};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_exit_code_is_the_commands() {
    let world = World::start().await;
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    fs::write(&plain, "not a program").unwrap();
    let plain = plain.to_str().unwrap();
    for (command, code) in [
        (&["true"][..], 0),
        (&["sh", "-c", "exit 7"], 7),
        (&["sh", "-c", "exit 255"], 255),
        (&["sh", "-c", "kill -TERM $$"], 143),
        (&["sh", "-c", "kill -KILL $$"], 137),
        // A signal without a name.
        (&["sh", "-c", "kill -40 $$"], 168),
        (&["lockctl-has-no-such-command"], 127),
        (&[plain], 126),
    ] {
        let ran = world.run(&[&["run", "backup", "--"], command].concat()).await;
        assert_eq!(ran.code, code, "{command:?}: {ran:?}");
        assert_eq!(ran.stderr.is_empty(), !matches!(code, 126 | 127), "{command:?}: {ran:?}");
        assert!(!is_held(&world.billing).await, "{command:?} has left the lock");
    }
    let wrong = world.run(&["run", "backup", "lockctl-has-no-such-command"]).await;
    assert_eq!(wrong.code, 2, "{wrong:?}");
    world.run(&["run", "--lease", "1ms", "backup", "--", "true"]).await.failed(2, "100ms");
    assert_eq!(world.run(&["run", "--kind", "spin", "backup", "--", "true"]).await.code, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_knows_its_lock_and_its_token() {
    let world = World::start().await;
    let show = ["run", "backup", "--", "sh", "-c", "echo $LOCK_NAME $LOCK_TOKEN"];
    let mut last = 0;
    for _ in 0..3 {
        let ran = world.run(&[&["--namespace", "shop"], &show[..]].concat()).await;
        let (name, token) = ran.stdout.trim().split_once(' ').unwrap();
        assert_eq!((ran.code, name), (0, "shop:backup"), "{ran:?}");
        let token: u64 = token.parse().unwrap();
        assert!(token > last, "{token} is no greater than {last}");
        last = token;
    }
    // Holders that share a lock are in no order. A token from around is that of another lock.
    let url = world.server.url();
    for (kind, has_token) in
        [("mutex", true), ("fair", true), ("read", false), ("write", true), ("semaphore(2)", false)]
    {
        let args = ["--url", &*url, "run", "--kind", kind, kind, "--", "sh", "-c"];
        let mut lockctl = command(&[&args[..], &["echo $LOCK_NAME ${LOCK_TOKEN-none}"]].concat());
        let ran = Running::spawn(lockctl.env("LOCK_TOKEN", "around")).end().await;
        assert_eq!((ran.code, &*ran.stderr), (0, ""), "{kind}: {ran:?}");
        let (name, token) = ran.stdout.trim().split_once(' ').unwrap();
        assert_eq!((name, token != "none"), (kind, has_token), "{ran:?}");
        assert_ne!(token, "around");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_streams_are_the_commands() {
    let world = World::start().await;
    let url = world.server.url();
    let args = script(&[], "cat; echo to the error >&2");
    let mut running = Running::start(&[&["--url", &*url], &args[..]].concat());
    let mut stdin = running.stdin.take().unwrap();
    stdin.write_all(b"one\n").await.unwrap();
    assert_eq!(running.line().await, "one", "a line passes before the end");
    // More than a pipe holds.
    let more = "x".repeat(300_000);
    let write = async {
        stdin.write_all(more.as_bytes()).await.unwrap();
        drop(stdin);
    };
    let ((), ran) = tokio::join!(write, running.end());
    assert_eq!((ran.code, ran.stdout.trim() == more), (0, true));
    assert_eq!(ran.stderr, "to the error\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_lock_has_an_exit_code_and_a_holder() {
    let world = World::start().await;
    let held = world.billing.mutex("backup").lock().await.unwrap();
    let holder = World::process("billing");
    let never = ["backup", "--", "echo", "ran"];
    for (options, says) in [
        (&["--no-wait"][..], "is busy"),
        (&["--wait", "none"], "is busy"),
        (&["--wait", "0s"], "is busy"),
        (&["--wait", "0"], "is busy"),
        (&["--wait", "200ms"], "is still held after waiting 2"),
    ] {
        let ran = world.run(&[&["run"], options, &never].concat()).await;
        ran.failed(75, says);
        assert!(ran.stderr.contains(&holder), "{ran:?}");
        assert_eq!(ran.stdout, "", "the command has run");
        let ran = world.run(&[&["run", "--busy-ok"], options, &never].concat()).await;
        ran.failed(0, says);
        assert_eq!(ran.stdout, "", "the command has run");
    }
    held.release().await.unwrap();
    let url = world.server.url();
    let mut running = Running::start(&[&["--url", &*url], &script(&[], SLEEP)[..]].concat());
    running.pids().await;
    let ran = world.run(&[&["run", "--no-wait"], &never[..]].concat()).await;
    ran.failed(75, "held by lockctl@");
    assert!(ran.stderr.contains(&format!(":{}\n", running.pid())), "{ran:?}");
    running.send(Signal::TERM);
    assert_eq!(running.end().await.code, 143);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_kept_at_least_that_long() {
    let world = World::start().await;
    let ran = world.run(&["run", "--at-least", "1m", "backup", "--", "true"]).await;
    assert_eq!((ran.code, &*ran.stderr), (0, ""), "{ran:?}");
    let left = world.billing.admin().inspect("backup").await.unwrap().remaining.unwrap();
    assert!(left > Duration::from_secs(40) && left <= Duration::from_secs(60), "{left:?}");
    world.run(&["run", "--no-wait", "backup", "--", "true"]).await.failed(75, "is busy");
}

/// A folder can be made once at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_command_runs_at_a_time() {
    let world = World::start().await;
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("inside").display().to_string();
    let count = folder.path().join("count").display().to_string();
    // A shell, two of which run ten commands each.
    let critical = format!(
        "mkdir {inside} || exit 99; n=$(cat {count} 2>/dev/null || echo 0); sleep 0.01; \
         echo $((n + 1)) > {count}; rmdir {inside}"
    );
    let lockctl = env!("CARGO_BIN_EXE_lockctl");
    let shell = format!(
        "for i in 1 2 3 4 5 6 7 8 9 10; do {lockctl} --url {} run backup -- sh -c '{critical}' || exit; done",
        world.server.url()
    );
    let run = async || {
        let shell = tokio::process::Command::new("sh").args(["-c", &shell]).output().await;
        let shell = shell.unwrap();
        assert_eq!(shell.status.code(), Some(0), "{shell:?}");
    };
    tokio::join!(run(), run());
    assert_eq!(fs::read_to_string(count).unwrap(), "20\n");
}

/// A wait that a signal ends leaves no place in the queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_ends_a_wait() {
    let world = World::start().await;
    let held = world.billing.fair_mutex("backup").lock().await.unwrap();
    let url = world.server.url();
    let args = script(&["--kind", "fair", "--wait", "forever"], "echo ran");
    let running = Running::start(&[&["--url", &*url], &args[..]].concat());
    let admin = world.orders.admin();
    let waiting = async || admin.inspect("backup").await.unwrap().waiting;
    eventually(crate::world::SOON, "it waits", async || waiting().await == 1).await;
    running.send(Signal::TERM);
    let ran = running.end().await;
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (143, "", ""), "{ran:?}");
    assert_eq!(waiting().await, 0, "its place is left");
    held.release().await.unwrap();
}

/// The way to the command costs little more than a connection: less than 30 ms on this machine's own network.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_starts_soon() {
    let world = World::start().await;
    let url = world.server.url();
    let (mut plain, mut started) = (Duration::MAX, Duration::MAX);
    // Other programs slow down most starts on a busy machine, but hardly all.
    for _ in 0..15 {
        let start = Instant::now();
        assert_eq!(world.run(&["show", "backup"]).await.code, 1);
        plain = plain.min(start.elapsed());

        let start = Instant::now();
        let mut running =
            Running::start(&["--url", &url, "run", "backup", "--", "echo", "started"]);
        assert_eq!(running.line().await, "started");
        started = started.min(start.elapsed());
        assert_eq!(running.end().await.code, 0);
    }
    let bound = Duration::from_millis(30);
    assert!(started < plain + bound, "{started:?} to the command, {plain:?} to an answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shells_get_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = lockctl(&["completions", shell]).await;
        assert_eq!((ran.code, &*ran.stderr), (0, ""), "{ran:?}");
        assert!(ran.stdout.contains("busy-ok") && ran.stdout.contains("deadlocks"), "{shell}");
        // Hidden: the process between `run` and its command.
        let words = ran.stdout.split(|c: char| !c.is_alphanumeric() && c != '-');
        assert!(!words.into_iter().any(|word| word == "lead"), "{shell} offers `lead`");
    }
    assert_eq!(lockctl(&["completions", "tcsh"]).await.code, 2);
}
