//! A command under `lockctl run`, line by line.

use std::process::Stdio;

use lock_runtime::LockClient;
use lock_tests::eventually;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::world::{Ran, SOON, command, ended};

/// A command that never ends by itself, and ignores nothing.
pub(super) const SLEEP: &str = "echo $$; exec sleep 600";

/// What `run` gets for a shell script under the lock `backup`.
pub(super) fn script<'a>(options: &[&'a str], script: &'a str) -> Vec<&'a str> {
    [&["run"], options, &["backup", "--", "sh", "-c", script]].concat()
}

/// `lockctl run`, whose command writes lines.
pub(super) struct Running {
    child: Child,
    pub(super) stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    pub(super) fn start(args: &[&str]) -> Self {
        Self::spawn(&mut command(args))
    }

    pub(super) fn spawn(command: &mut Command) -> Self {
        Self::spawn_with(command, Stdio::piped())
    }

    pub(super) fn spawn_with(command: &mut Command, stderr: Stdio) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { stdin: child.stdin.take(), child, lines }
    }

    /// The next line of the command.
    pub(super) async fn line(&mut self) -> String {
        let line = timeout(SOON, self.lines.next_line()).await.expect("no line").unwrap();
        line.expect("it has ended")
    }

    /// The process ids in the next line.
    pub(super) async fn pids(&mut self) -> Vec<Pid> {
        let line = self.line().await;
        line.split_whitespace().map(|word| Pid::from_raw(word.parse().unwrap()).unwrap()).collect()
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id().unwrap()).unwrap()).unwrap()
    }

    pub(super) fn send(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// True if it has not ended.
    pub(super) fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits until it ends. `stdout` is what no one has read before.
    pub(super) async fn end(mut self) -> Ran {
        drop(self.stdin.take());
        let rest = async {
            let mut rest = String::new();
            while let Some(line) = self.lines.next_line().await.unwrap() {
                rest = rest + &line + "\n";
            }
            rest
        };
        let rest = timeout(SOON, rest).await.expect("the command goes on");
        let ran = timeout(SOON, ended(self.child)).await.expect("lockctl goes on");
        Ran { stdout: rest, ..ran }
    }
}

/// Waits until these processes have gone. Zombies count as gone: their parents run.
pub(super) async fn gone(pids: &[Pid]) {
    let is_alive = |pid: &Pid| {
        test_kill_process(*pid).is_ok() && !matches!(&*state(&pid.to_string()), "" | "Z" | "X")
    };
    eventually(SOON, "the processes are gone", async || !pids.iter().any(is_alive)).await;
}

/// The letter that `/proc` has for the state of a process.
pub(super) fn state(pid: &str) -> String {
    stat(pid, 0)
}

/// Its process group: 0 if that is of another PID namespace.
pub(super) fn group(pid: Pid) -> i32 {
    stat(&pid.to_string(), 2).parse().unwrap()
}

/// A field of `/proc`'s `stat`, counted from that behind the name.
fn stat(pid: &str, field: usize) -> String {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name of the program may be no UTF-8.
    let stat = String::from_utf8_lossy(&stat);
    let rest = stat.rsplit(')').next().unwrap_or_default();
    rest.split_whitespace().nth(field).unwrap_or_default().to_owned()
}

/// What starts a program in a PID namespace without its session and its process group, as the shell of a container or of
/// a CI runner may be. Empty where that is not permitted.
pub(super) fn in_a_namespace() -> Vec<&'static str> {
    let unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
    for more in [&[][..], &["--user", "--map-root-user"]] {
        let unshare = [&unshare[..], more].concat();
        let ran = std::process::Command::new(unshare[0]).args(&unshare[1..]).arg("true").output();
        if ran.is_ok_and(|ran| ran.status.success()) {
            return unshare;
        }
    }
    eprintln!("left out: PID namespaces are not permitted here");
    Vec::new()
}

/// True if a client holds the lock `backup`.
pub(super) async fn is_held(client: &LockClient) -> bool {
    !client.admin().inspect("backup").await.unwrap().holders.is_empty()
}
