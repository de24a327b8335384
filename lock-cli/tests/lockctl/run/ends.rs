//! Signals, process groups, and the end of `lockctl` itself.

use lock_tests::eventually;
use rustix::process::{Signal, kill_process};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::world::{Running, SLEEP, gone, group, in_a_namespace, is_held, script};
use crate::world::{SOON, World, command};

/// With their names in a shell.
const SIGNALS: [(&str, Signal); 6] = [
    ("TERM", Signal::TERM),
    ("INT", Signal::INT),
    ("HUP", Signal::HUP),
    ("QUIT", Signal::QUIT),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
];

fn start(world: &World, args: &[&str]) -> Running {
    Running::start(&[&["--url", &*world.server.url()], args].concat())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_signal_is_passed_on() {
    let world = World::start().await;
    for (name, signal) in SIGNALS {
        let handles = format!(
            "trap 'echo got {name}; exit 9' {name}; echo ready; while :; do sleep 0.02; done"
        );
        let mut running = start(&world, &script(&[], &handles));
        assert_eq!(running.line().await, "ready");
        running.send(signal);
        assert_eq!(running.line().await, format!("got {name}"));
        let ran = running.end().await;
        assert_eq!((ran.code, &*ran.stdout), (9, ""), "once: {ran:?}");

        let mut running = start(&world, &script(&[], SLEEP));
        let command = running.pids().await;
        running.send(signal);
        let ran = running.end().await;
        assert_eq!((ran.code, &*ran.stderr), (128 + signal.as_raw(), ""), "{name}: {ran:?}");
        gone(&command).await;
        assert!(!is_held(&world.billing).await, "SIG{name} has left the lock");
    }
}

/// A command that goes on after a signal keeps its lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_may_ignore_a_signal() {
    let world = World::start().await;
    let mut running = start(
        &world,
        &script(&[], "trap 'echo reloads' HUP; echo ready; while ! read line; do :; done"),
    );
    assert_eq!(running.line().await, "ready");
    running.send(Signal::HUP);
    assert_eq!(running.line().await, "reloads");
    assert!(running.runs() && is_held(&world.billing).await);
    running.stdin.as_mut().unwrap().write_all(b"end\n").await.unwrap();
    assert_eq!(running.end().await.code, 0);
}

/// `nohup lockctl run`: the command inherits that SIGHUP is ignored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ignored_signal_stays_ignored() {
    let world = World::start().await;
    let lockctl = env!("CARGO_BIN_EXE_lockctl");
    let url = world.server.url();
    let run =
        format!("trap '' HUP; exec {lockctl} --url {url} run backup -- sh -c 'echo $$; read line'");
    let mut running = Running::spawn(Command::new("sh").args(["-c", &run]));
    let command = running.pids().await;
    running.send(Signal::HUP);
    kill_process(command[0], Signal::HUP).unwrap();
    running.send(Signal::USR1);
    // Before its input ends.
    gone(&command).await;
    let ran = running.end().await;
    assert_eq!(ran.code, 128 + Signal::USR1.as_raw(), "only the second signal counts: {ran:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_reaches_the_whole_group() {
    let world = World::start().await;
    let mut running = start(&world, &script(&[], "sleep 600 & echo $$ $!; wait"));
    let pids = running.pids().await;
    assert_eq!(group(pids[0]), group(pids[1]));
    assert_ne!(group(pids[0]), group(running.pid()), "a group of its own");
    running.send(Signal::TERM);
    assert_eq!(running.end().await.code, 143);
    gone(&pids).await;
}

/// The lock is held until the last process of the group has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_command_leaves_behind_keeps_the_lock() {
    let world = World::start().await;
    let mut running =
        start(&world, &script(&[], "echo $$; exec 3<&0; head -c1 <&3 >/dev/null & exit 3"));
    let command = running.pids().await;
    gone(&command).await;
    world.run(&["run", "--wait", "300ms", "backup", "--", "true"]).await.failed(75, "lockctl@");
    assert!(running.runs(), "it has not waited");
    running.stdin.as_mut().unwrap().write_all(b"x").await.unwrap();
    assert_eq!(running.end().await.code, 3, "the code is the command's");
    assert!(!is_held(&world.billing).await);
}

/// A process in a session of its own is on its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_does_not_keep_the_lock() {
    let world = World::start().await;
    let daemon = "setsid sh -c 'echo $$ >&3; exec sleep 600' 3>&1 >/dev/null 2>&1 & \
                  while ! read line; do :; done; exit 4";
    let mut running = start(&world, &script(&[], daemon));
    let daemon = running.pids().await;
    running.stdin.as_mut().unwrap().write_all(b"end\n").await.unwrap();
    eventually(SOON, "lockctl ends", async || !running.runs()).await;
    assert!(!is_held(&world.billing).await);
    kill_process(daemon[0], Signal::KILL).unwrap();
    assert_eq!(running.end().await.code, 4);
}

/// The same where the session of `lockctl` has no number.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_in_a_container_does_not_keep_the_lock() {
    let [program, args @ ..] = &in_a_namespace()[..] else { return };
    let world = World::start().await;
    let lockctl = env!("CARGO_BIN_EXE_lockctl");
    let url = world.server.url();
    let leaves = "setsid sleep 600 >/dev/null 2>&1 & exec 3<&0; head -c1 <&3 >/dev/null & echo ready; exit 4";
    let mut running = Running::spawn(
        Command::new(program)
            .args(args)
            .args(["sh", "-c", "\"$@\"; exit $?", "sh", lockctl, "--url", &url])
            .args(script(&[], leaves)),
    );
    assert_eq!(running.line().await, "ready");
    world.run(&["run", "--wait", "300ms", "backup", "--", "true"]).await.failed(75, "lockctl@");
    assert!(running.runs(), "it has not waited");
    running.stdin.as_mut().unwrap().write_all(b"x").await.unwrap();
    let ran = running.end().await;
    assert_eq!((ran.code, &*ran.stderr), (4, ""), "{ran:?}");
    assert!(!is_held(&world.billing).await);
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_process_outlives_a_killed_lockctl() {
    let world = World::start().await;
    let mut running =
        start(&world, &script(&[], "trap '' TERM HUP; sleep 600 & echo $$ $! $PPID; wait"));
    let pids = running.pids().await;
    running.send(Signal::KILL);
    gone(&pids).await;
}

/// A leader that is killed alone takes the group with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_process_outlives_a_killed_leader() {
    let world = World::start().await;
    let mut running =
        start(&world, &script(&[], "trap '' TERM; sleep 600 & echo $$ $! $PPID; wait"));
    let pids = running.pids().await;
    kill_process(pids[2], Signal::KILL).unwrap();
    assert_eq!(running.end().await.code, 137);
    gone(&pids).await;
}

/// The leader of a `lockctl` that has gone starts nothing.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orphan_starts_nothing() {
    let ran = Running::spawn(&mut command(&["lead", "1", "--", "echo", "ran"])).end().await;
    assert_eq!((ran.code, &*ran.stdout), (1, ""), "{ran:?}");
}
