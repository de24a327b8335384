//! A worker in a process of its own, spoken to line by line over stdin and stdout.
//!
//! What a process alone can show (two clients that share nothing, a holder that is killed or
//! stopped in the middle of its work) needs one. The worker reads commands from its stdin, one a
//! line, and answers on its stdout; its stderr is the test's.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::timeout;

use crate::eventually::eventually;
use crate::leash::{EndBy, Leash};

/// A child process that is killed when this is dropped, or when the test process ends.
#[derive(Debug)]
pub struct Worker {
    name: String,
    leash: Leash,
    /// `None` once closed.
    stdin: Option<ChildStdin>,
    lines: UnboundedReceiver<String>,
}

impl Worker {
    /// Starts `exe`, for a binary of this package `env!("CARGO_BIN_EXE_name")`, with the test's
    /// environment and `envs`.
    ///
    /// Panics when it cannot be started.
    pub fn spawn(exe: impl AsRef<OsStr>, args: &[&str], envs: &[(&str, &str)]) -> Self {
        let exe = exe.as_ref();
        let mut command = Command::new(exe);
        command.args(args).envs(envs.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut leash = Leash::spawn(&mut command, None, EndBy::Kill)
            .unwrap_or_else(|error| panic!("cannot start worker {}: {error}", exe.display()));
        let stdin = leash.child().stdin.take();
        let stdout = leash.child().stdout.take().expect("the worker's stdout is a pipe");
        let (sender, lines) = mpsc::unbounded_channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let file = Path::new(exe).file_name().unwrap_or(exe);
        let name = format!("worker {} ({})", file.display(), leash.id());
        Self { name, leash, stdin, lines }
    }

    /// The worker's process id.
    pub fn id(&self) -> u32 {
        self.leash.id()
    }

    /// Sends `line` to the worker's stdin.
    ///
    /// Panics when the worker has closed its stdin, as by exiting, or [`wait`](Self::wait) has.
    pub fn send(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("the worker's stdin has not been closed");
        if let Err(error) = writeln!(stdin, "{line}").and_then(|()| stdin.flush()) {
            panic!("{} does not take `{line}`: {error}", self.name);
        }
    }

    /// The next line of the worker's stdout.
    ///
    /// Panics when none comes within `bound`, or the worker has closed its stdout.
    pub async fn next_line(&mut self, bound: Duration) -> String {
        match timeout(bound, self.lines.recv()).await {
            Ok(Some(line)) => line,
            Ok(None) => panic!("{} has ended instead of writing a line", self.name),
            Err(_) => panic!("{} has not written a line within {bound:?}", self.name),
        }
    }

    /// The next line of the worker's stdout, if one comes within `bound` and before its end.
    pub async fn try_next_line(&mut self, bound: Duration) -> Option<String> {
        timeout(bound, self.lines.recv()).await.ok().flatten()
    }

    /// Stops the worker (SIGSTOP), and returns when it no longer runs.
    ///
    /// Panics when the worker has exited.
    pub fn sigstop(&self) {
        self.leash.stop();
    }

    /// Lets a stopped worker go on (SIGCONT).
    ///
    /// Panics when the worker has exited.
    pub fn sigcont(&self) {
        self.leash.cont();
    }

    /// Kills the worker (SIGKILL), stopped or not, and returns when it is gone. Lines that it wrote
    /// before can still be read.
    ///
    /// Panics when the system refuses.
    pub fn sigkill(&mut self) {
        self.leash.kill().expect("one's own child can be killed");
    }

    /// Closes the worker's stdin and waits for its end.
    ///
    /// Panics when it has not ended within `bound`.
    pub async fn wait(&mut self, bound: Duration) -> ExitStatus {
        drop(self.stdin.take());
        let mut status = None;
        let what = format!("{} has ended", self.name);
        eventually(bound, &what, async || {
            status = self.leash.try_wait().expect("one's own child can be waited for");
            status.is_some()
        })
        .await;
        status.expect("the wait above ends with a status")
    }
}
