//! Commands that leave the process group, or the session, in which `lockctl run` starts them.

use std::fs;
use std::io::{Write, pipe};
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use lock_tests::eventually;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::world::{Running, SLEEP, gone, group, is_held, script, state};
use crate::world::{SOON, World, command};

/// Ends for SIGTERM.
const POLITE: &str = "echo $$; exec sleep 600";

/// Does not, and neither does what it starts.
const STUBBORN: &str = "trap '' TERM HUP INT; sleep 600 & echo $$ $!; wait";

/// Ends for SIGTERM, and leaves a process that it has started.
const FORGETFUL: &str = "sleep 600 & echo $$ $!; wait";

/// The ways out of a process group. Each runs `$0` in a shell.
const LEAVERS: [&str; 4] = [
    "exec timeout 600 sh -c \"$0\"",
    "exec bash -c 'set -m; sh -c \"$0\" & wait' \"$0\"",
    "exec setsid sh -c \"$0\"",
    "setsid --wait sh -c \"$0\"; exit",
];

/// Starts the script in a group of its own. Returns the ids of its processes.
async fn start(world: &World, leaver: &str, text: &str) -> (Running, Vec<Pid>) {
    let url = world.server.url();
    let run = ["--url", &*url, "run", "--lease", "3s", "backup", "--", "sh", "-c", leaver, text];
    let mut running = Running::start(&run);
    let pids = running.pids().await;
    assert_ne!(group(pids[0]), group(leader(&running)), "{leaver}: it has left the group");
    (running, pids)
}

/// The only child of `lockctl`.
fn leader(running: &Running) -> Pid {
    let children = format!("/proc/{0}/task/{0}/children", running.pid());
    Pid::from_raw(fs::read_to_string(children).unwrap().trim().parse().unwrap()).unwrap()
}

fn parent(process: Pid) -> Pid {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap();
    Pid::from_raw(parent.trim().parse().unwrap()).unwrap()
}

/// Waits until the process waits. A `timeout` that does not know its child yet ends for a signal, and does not pass it on.
async fn waits(process: Pid) {
    eventually(SOON, "it waits", async || state(&process.to_string()) == "S").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_ends_every_group() {
    let world = World::start().await;
    for leaver in LEAVERS {
        for (text, says) in [(POLITE, "SIGTERM"), (STUBBORN, "SIGKILL")] {
            let (running, pids) = start(&world, leaver, text).await;
            assert_eq!(world.run(&["release", "backup", "--yes"]).await.code, 0);
            gone(&pids).await;
            running.end().await.failed(76, says);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_reaches_every_group() {
    let world = World::start().await;
    for leaver in LEAVERS {
        for text in [POLITE, FORGETFUL] {
            let (running, pids) = start(&world, leaver, text).await;
            waits(parent(pids[0])).await;
            running.send(Signal::TERM);
            gone(&pids).await;
            let ran = running.end().await;
            assert_eq!(
                (ran.code, is_held(&world.billing).await),
                (143, false),
                "{leaver}: {ran:?}"
            );
        }
    }
}

/// A process that passes signals on, as `timeout` does, is the only one from which what it has started gets them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_does_not_overtake_what_passes_it_on() {
    let world = World::start().await;
    let counts = "n=0; trap 'n=$((n+1)); echo got $n' HUP; echo $PPID $$; \
                  while [ $n -lt 1 ] || ! read line <&3; do sleep 0.02; done; exit 3";
    let forwards = "exec setsid bash -c 'trap \"kill -HUP \\$!\" HUP; sh -c \"$0\" & \
                    until wait $!; [ $? -lt 128 ]; do :; done' \"$0\"";
    // `timeout` sends the signal to its child and to its group, so its child may get it twice from there.
    for (leaver, is_exact) in [(LEAVERS[0], false), (forwards, true)] {
        let leaver = format!("exec 3<&0; {leaver}");
        let (mut running, pids) = start(&world, &leaver, counts).await;
        waits(pids[0]).await;
        kill_process(pids[0], Signal::STOP).unwrap();
        running.send(Signal::HUP);
        let early = timeout(Duration::from_millis(300), running.line()).await;
        assert!(early.is_err(), "{leaver}: {early:?}");
        kill_process(pids[0], Signal::CONT).unwrap();
        assert_eq!(running.line().await, "got 1", "{leaver}");
        running.stdin.as_mut().unwrap().write_all(b"end\n").await.unwrap();
        let ran = running.end().await;
        assert!(!is_exact || ran.stdout.is_empty(), "{leaver}: {ran:?}");
    }
}

/// Only `lockctl` knows which signals were sent to it. What else reaches the group of the command stays there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_of_the_group_stays_in_the_group() {
    let world = World::start().await;
    let leaves = "trap 'echo group' HUP; setsid sh -c \"$0\" & while :; do wait; done";
    let (mut running, pids) =
        start(&world, leaves, "trap 'echo left' HUP; echo $$; while :; do sleep 0.02; done").await;
    kill_process_group(leader(&running), Signal::HUP).unwrap();
    assert_eq!(running.line().await, "group");
    let left = timeout(Duration::from_millis(300), running.line()).await;
    assert!(left.is_err(), "{left:?}");
    running.send(Signal::KILL);
    gone(&pids).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_group_outlives_a_killed_lockctl() {
    let world = World::start().await;
    for leaver in LEAVERS {
        let (running, pids) = start(&world, leaver, STUBBORN).await;
        running.send(Signal::KILL);
        gone(&pids).await;
        world.run(&["release", "backup", "--yes"]).await;
    }
}

/// The kernel cuts the name of a program at 15 bytes, here within a character. What the program starts has left the group.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_cut_hides_no_process() {
    let world = World::start().await;
    let folder = tempfile::tempdir().unwrap();
    let backup = folder.path().join("datensicherungü.sh");
    let text = "#!/bin/sh\ntrap '' TERM\nsetsid sleep 600 &\necho $$ $!\nwait\n";
    fs::write(&backup, text).unwrap();
    fs::set_permissions(&backup, fs::Permissions::from_mode(0o755)).unwrap();
    let url = world.server.url();
    let run = ["--url", &*url, "run", "backup", "--", "setsid", "--wait", backup.to_str().unwrap()];
    let mut running = Running::start(&run);
    let pids = running.pids().await;
    let name = fs::read(format!("/proc/{}/comm", pids[0])).unwrap();
    assert!(str::from_utf8(&name).is_err(), "the kernel has not cut it");
    running.send(Signal::KILL);
    gone(&pids).await;
}

/// A leader that is killed alone takes every group with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_group_outlives_a_killed_leader() {
    let world = World::start().await;
    for leaver in LEAVERS {
        let (running, pids) = start(&world, leaver, STUBBORN).await;
        kill_process(leader(&running), Signal::KILL).unwrap();
        assert_eq!(running.end().await.code, 137, "{leaver}");
        gone(&pids).await;
    }
}

/// A job in a group of its own is no daemon: its session is that of `lockctl`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_left_behind_keeps_the_lock() {
    let world = World::start().await;
    let leaves = "exec bash -c 'set -m; sh -c \"$0\" & read line <&3; exit 5' \"$0\" 3<&0";
    let (mut running, pids) = start(&world, leaves, POLITE).await;
    drop(running.stdin.take());
    world.run(&["run", "--wait", "300ms", "backup", "--", "true"]).await.failed(75, "lockctl@");
    assert!(running.runs(), "it has not waited");
    kill_process(pids[0], Signal::KILL).unwrap();
    assert_eq!(running.end().await.code, 5, "the code is the command's");
}

/// No reader of the standard error keeps a command alive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_pipe_does_not_delay_the_end() {
    let world = World::start().await;
    let (reader, mut writer) = pipe().unwrap();
    let theirs = Stdio::from(writer.try_clone().unwrap());
    // Blocks, and fails when the reader has gone.
    thread::spawn(move || while writer.write_all(&[b'x'; 4096]).is_ok() {});
    let url = world.server.url();
    let mut lockctl =
        command(&[&["--url", &*url], &script(&["--lease", "900ms"], POLITE)[..]].concat());
    let mut running = Running::spawn_with(&mut lockctl, theirs);
    // `Command` has a copy of the writer, which would keep the pipe.
    drop(lockctl);
    let pids = running.pids().await;
    assert_eq!(world.run(&["release", "backup", "--yes"]).await.code, 0);
    gone(&pids).await;
    drop(reader);
    assert_eq!(running.end().await.code, 76);
}

/// A signal that comes while the command is being started ends it, or it is not started.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_right_after_the_grant_counts() {
    let world = World::start().await;
    for _ in 0..10 {
        let url = world.server.url();
        let running = Running::start(&[&["--url", &*url], &script(&[], SLEEP)[..]].concat());
        eventually(SOON, "it is held", async || is_held(&world.billing).await).await;
        running.send(Signal::TERM);
        let ran = running.end().await;
        assert_eq!((ran.code, &*ran.stderr), (143, ""), "{ran:?}");
    }
}

/// A process of another user can be neither signalled nor ended, which is said. Needs root, and a file system with setuid.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_ended_is_named() {
    if !rustix::process::getuid().is_root() {
        eprintln!("left out: what_cannot_be_ended_is_named needs root");
        return;
    }
    let world = World::start().await;
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = |from: &str, name: &str| {
        let to = folder.path().join(name);
        fs::copy(from, &to).unwrap();
        chown(&to, Some(0), Some(0)).unwrap();
        fs::set_permissions(&to, fs::Permissions::from_mode(0o4755)).unwrap();
        to.display().to_string()
    };
    let sudo = copy("/usr/bin/setpriv", "sudo");
    let lockctl = folder.path().join("lockctl");
    fs::copy(env!("CARGO_BIN_EXE_lockctl"), &lockctl).unwrap();
    let url = world.server.url();
    for kills_leader in [false, true] {
        let mut running = Running::spawn(
            tokio::process::Command::new("setpriv")
                .args(["--reuid=65534", "--clear-groups"])
                .arg(&lockctl)
                .args(["--url", &url, "run", "--lease", "900ms", "backup", "--"])
                .args([&*sudo, "--reuid=0", "sh", "-c", SLEEP]),
        );
        let pids = running.pids().await;
        let code = if kills_leader {
            kill_process(leader(&running), Signal::KILL).unwrap();
            137
        } else {
            assert_eq!(world.run(&["release", "backup", "--yes"]).await.code, 0);
            76
        };
        eventually(SOON, "lockctl gives up", async || !running.runs()).await;
        kill_process(pids[0], Signal::KILL).unwrap();
        running.end().await.failed(code, &format!("cannot be ended: {}", pids[0]));
    }
}
