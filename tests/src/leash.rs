//! Child processes that cannot outlive the test process.
//!
//! A child is killed when its [`Leash`] is dropped. When the test process itself is killed nothing
//! is dropped, and Linux's "signal me when my parent dies" cannot be set between fork and exec
//! without unsafe code (and would fire when the *thread* that started the child ends, which for a
//! test is long before the process does). So each child gets a reaper: a shell that blocks on a
//! pipe of which the test process holds the other end. The end of the test process, however it
//! comes, closes the pipe; the shell then kills the child and removes its directory.

use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::eventually::eventually_blocking;

/// `$1` is the child, `$2` its directory or nothing, `$3` the signal that ends it. Signals that a terminal sends to everything in the
/// foreground must not end the reaper before its child. A child that ends by itself may still write to its directory.
const REAPER: &str = r#"trap '' INT TERM HUP
read -r _
kill -s "$3" "$1"
[ -z "$2" ] || rm -rf -- "$2" || { sleep 1; rm -rf -- "$2"; }"#;

/// How long the kernel may take to stop a process that got SIGSTOP.
const STOP_BOUND: Duration = Duration::from_secs(5);

/// A child process and its reaper.
#[derive(Debug)]
pub struct Leash {
    child: Child,
    reaper: Child,
    end: EndBy,
}

/// How a child is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndBy {
    /// By SIGKILL.
    Kill,
    /// By SIGQUIT, at which PostgreSQL ends at once, and removes what the system would keep of it.
    Quit,
}

impl Leash {
    /// Starts `command`. `dir`, if given, is removed when the test process dies without cleaning up.
    ///
    /// # Errors
    ///
    /// When the system cannot start it or its reaper.
    pub fn spawn(command: &mut Command, dir: Option<&Path>, end: EndBy) -> io::Result<Self> {
        let signal = match end {
            EndBy::Kill => "KILL",
            EndBy::Quit => "QUIT",
        };
        let mut child = command.spawn()?;
        let reaper = Command::new("/bin/sh")
            .args(["-c", REAPER, "reaper"])
            .arg(child.id().to_string())
            .arg(dir.unwrap_or(Path::new("")))
            .arg(signal)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match reaper {
            Ok(reaper) => Ok(Self { child, reaper, end }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// The child's process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The child, to take its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Sends SIGSTOP and waits until the child has stopped: the signal only asks for it.
    ///
    /// Panics when the child has exited.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        eventually_blocking(STOP_BOUND, "the process has stopped", || {
            let status =
                waitid(WaitId::Pid(self.pid()), options).expect("a child can be waited for");
            status.is_some_and(|status| status.stopped())
        });
    }

    /// Sends SIGCONT.
    ///
    /// Panics when the child has exited.
    pub fn cont(&self) {
        self.signal(Signal::CONT);
    }

    /// Ends the child and waits until it is gone. Does nothing to one that has exited.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        // The reaper first: it must not kill a stranger that gets the child's number.
        let _ = self.reaper.kill();
        let _ = self.reaper.wait();
        match self.end {
            EndBy::Kill => self.child.kill()?,
            EndBy::Quit if self.child.try_wait()?.is_none() => self.signal(Signal::QUIT),
            EndBy::Quit => {}
        }
        self.child.wait()
    }

    /// The child's exit status, if it has exited.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal)
            .expect("a child that has not been waited for has a process");
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
