//! `lockctl run` on a terminal: the command reads it, and keys reach the command once.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use lock_tests::eventually::eventually_blocking;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::world::{in_a_namespace, state};
use crate::world::{SOON, World};

/// A session with a terminal of its own, in which a program runs.
struct Session {
    keyboard: File,
    screen: Receiver<String>,
    seen: String,
    /// How much of that a test has waited for.
    read: usize,
    program: Child,
}

impl Session {
    fn start(program: &str, args: &[&str]) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = File::options().read(true).write(true).open(name).unwrap();
        let theirs = || Stdio::from(theirs.try_clone().unwrap());
        let program = Command::new("env")
            .args(["--default-signal", "setsid", "--ctty", "--wait", program])
            .args(args)
            .env("HISTFILE", "/dev/null")
            .env("PS1", PROMPT)
            .stdin(theirs())
            .stdout(theirs())
            .stderr(theirs())
            .spawn()
            .unwrap();
        let keyboard = File::from(ours);
        let mut output = keyboard.try_clone().unwrap();
        let (sender, screen) = channel();
        // Ends with an error once the session has ended.
        thread::spawn(move || {
            let mut bytes = [0; 1024];
            while let Ok(read @ 1..) = output.read(&mut bytes) {
                let _ = sender.send(String::from_utf8_lossy(&bytes[..read]).into_owned());
            }
        });
        Self { keyboard, screen, seen: String::new(), read: 0, program }
    }

    fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until that is on the screen, after what was waited for before.
    #[track_caller]
    fn shows(&mut self, text: &str) {
        eventually_blocking(SOON, &format!("{text:?} is shown"), || {
            self.seen.extend(self.screen.recv_timeout(Duration::from_millis(10)));
            let found = self.seen[self.read..].find(text);
            found.inspect(|at| self.read += at + text.len()).is_some()
        });
    }

    fn code(&mut self) -> Option<i32> {
        eventually_blocking(SOON, "it ends", || self.program.try_wait().unwrap().is_some());
        self.program.wait().unwrap().code()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// Keys that are typed before the shell has the terminal may be lost.
const PROMPT: &str = "your turn: ";

const LOCKCTL: &str = env!("CARGO_BIN_EXE_lockctl");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_reads_the_terminal() {
    let world = World::start().await;
    let url = world.server.url();
    let read = "echo ready; read line; echo got $line; exit 6";
    let mut session =
        Session::start(LOCKCTL, &["--url", &url, "run", "backup", "--", "sh", "-c", read]);
    session.shows("ready");
    session.types("words\n");
    session.shows("got words");
    assert_eq!(session.code(), Some(6));
}

/// Ctrl-C reaches the command once, and the script around `lockctl` reads the terminal afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupt_reaches_the_command_once() {
    let world = World::start().await;
    let counts = "trap \"echo interrupted\" INT; echo ready; while ! read line; do :; done; exit 7";
    let around = format!(
        "trap : INT; {LOCKCTL} --url {} run backup -- sh -c '{counts}'; echo code $?; read line; echo then $line",
        world.server.url()
    );
    let mut session = Session::start("sh", &["-c", &around]);
    session.shows("ready");
    session.types("\u{3}");
    session.shows("interrupted");
    session.types("go\n");
    session.shows("code 7");
    session.types("words\n");
    session.shows("then words");
    assert_eq!(session.seen.matches("interrupted").count(), 1, "{}", session.seen);
    assert_eq!(session.code(), Some(0));
}

/// Ctrl-Z gives the terminal to the shell, and `fg` gives it back to the command.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shell_stops_and_continues_it() {
    let world = World::start().await;
    let mut session = Session::start("bash", &["--norc", "--noprofile", "-i"]);
    let run = format!(
        "{LOCKCTL} --url {} run backup -- sh -c 'echo re''ady; read line; echo got $line'\n",
        world.server.url()
    );
    session.shows(PROMPT);
    session.types(&run);
    session.shows("ready");
    session.types("\u{1a}");
    session.shows("Stopped");
    session.shows(PROMPT);
    session.types("echo sh''ell\n");
    session.shows("shell");
    session.shows(PROMPT);
    session.types("fg\n");
    session.types("words\n");
    session.shows("got words");
    session.shows(PROMPT);
    session.types("exit 8\n");
    assert_eq!(session.code(), Some(8));
}

/// Ctrl-Z while the output is redirected: the terminal is not the command's, which stops with `lockctl` nevertheless.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shell_stops_a_command_without_the_terminal() {
    let world = World::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let mut session = Session::start("bash", &["--norc", "--noprofile", "-i"]);
    // `timeout` leaves the group.
    let run = format!(
        "{LOCKCTL} --url {} run backup -- sh -c 'timeout 600 sleep 600 & echo $$ $!; wait' > {}\n",
        world.server.url(),
        file.display()
    );
    session.shows(PROMPT);
    session.types(&run);
    let pids = || fs::read_to_string(&file).unwrap_or_default();
    eventually_blocking(SOON, "it runs", || pids().split_whitespace().count() == 2);
    let are = |letter| pids().split_whitespace().all(|pid| state(pid) == letter);
    eventually_blocking(SOON, "they wait", || are("S"));
    session.types("\u{1a}");
    session.shows("Stopped");
    session.shows(PROMPT);
    eventually_blocking(SOON, "they stop", || are("T"));
    session.types("bg\n");
    session.shows(PROMPT);
    eventually_blocking(SOON, "they go on", || are("S"));
    session.types("kill %1; wait; exit 8\n");
    assert_eq!(session.code(), Some(8));
    assert!(are(""), "they have ended");
}

/// Each process of the command starts the next one and ends. None runs on after Ctrl-Z.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_process_escapes_a_stop_by_a_fork() {
    let world = World::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("steps");
    let mut session = Session::start("bash", &["--norc", "--noprofile", "-i"]);
    let step = "step() { echo; if [ $1 -gt 0 ]; then step $(($1-1)) & fi; }; step 20000";
    let run = format!(
        "{LOCKCTL} --url {} run backup -- sh -c '{step}' > {}\n",
        world.server.url(),
        file.display()
    );
    session.shows(PROMPT);
    session.types(&run);
    let steps = || fs::metadata(&file).map_or(0, |file| file.len());
    eventually_blocking(SOON, "it runs", || steps() > 100);
    session.types("\u{1a}");
    session.shows("Stopped");
    session.shows(PROMPT);
    let stopped = steps();
    thread::sleep(Duration::from_millis(100));
    assert_eq!(steps(), stopped);
    session.types("bg\n");
    session.shows(PROMPT);
    eventually_blocking(SOON, "it goes on", || steps() > stopped);
    session.types("kill %1; wait; exit 8\n");
    assert_eq!(session.code(), Some(8));
}

/// No shell could hand the terminal over, so a command in the background would wait for it for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_nothing_can_serve_ends_the_command() {
    let world = World::start().await;
    let run = format!(
        "{LOCKCTL} --url {} run backup -- sh -c 'read line' > /dev/null; echo code $?",
        world.server.url()
    );
    let mut session = Session::start("sh", &["-c", &run]);
    session.shows("is not in the foreground");
    session.shows("code 143");
    assert_eq!(session.code(), Some(0));
}

/// A shell in a container, which is in a session and a group without numbers there.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_without_the_terminal_ends_the_command_in_a_container() {
    let [program, args @ ..] = &in_a_namespace()[..] else { return };
    let world = World::start().await;
    let run = format!(
        "{LOCKCTL} --url {} run backup -- sh -c 'read line' > /dev/null; echo code $?",
        world.server.url()
    );
    let mut session = Session::start(program, &[args, &["sh", "-c", &run]].concat());
    session.shows("is not in the foreground");
    session.shows("code 143");
    assert_eq!(session.code(), Some(0));
}

/// After an end by force, the script around `lockctl` reads the terminal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_by_force_hands_the_terminal_back() {
    let world = World::start().await;
    let around = format!(
        "{LOCKCTL} --url {} run --lease 900ms backup -- sh -c 'trap \"\" TERM; echo ready; sleep 600'; \
         echo code $?; read line; echo then $line",
        world.server.url()
    );
    let mut session = Session::start("sh", &["-c", &around]);
    session.shows("ready");
    assert_eq!(world.run(&["release", "backup", "--yes"]).await.code, 0);
    session.shows("code 76");
    session.types("words\n");
    session.shows("then words");
    assert_eq!(session.code(), Some(0));
}

/// A signal that comes before the command ends the start. The leader waits for the terminal here, which nothing hands on.
/// A start would fail with code 127.
#[test]
fn a_signal_before_the_start_starts_nothing() {
    // The leader has handlers once the bit of SIGTERM is set.
    let run = format!(
        "{LOCKCTL} lead $$ -- lockctl-has-no-such-command < /dev/tty & \
         until grep -q 'SigCgt:.*[4-7c-f]...$' /proc/$!/status; do :; done; \
         kill -TERM $!; wait $!; echo code $?"
    );
    let mut session = Session::start("sh", &["-c", &run]);
    session.shows("code 143");
    assert_eq!(session.code(), Some(0));
}
