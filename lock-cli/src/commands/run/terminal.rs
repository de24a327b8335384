//! The terminal, which lets one process group read: that in the foreground. A command in a group of its own would be
//! stopped at its first read, so `lockctl run` hands it the foreground, as a shell does.
//!
//! `flock` and `timeout --foreground` keep the command in their own group instead. Then Ctrl-C reaches the command twice,
//! once from the terminal and once passed on, and what the command has started cannot be ended with it.

use std::fs::File;
use std::io::{IsTerminal, stdin, stdout};
use std::time::Duration;

use rustix::process::{Pid, getpid};
use rustix::termios::{tcgetpgrp, tcsetpgrp};
use tokio::time::{sleep, timeout};

use super::descendants::{group_and_session, parent_of};

/// How often, and for how long, the leader of a group looks whether it has the foreground.
const LOOK: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(1);

/// The terminal that controls this process, whatever the standard streams are.
fn controlling() -> Option<File> {
    File::options().read(true).write(true).open("/dev/tty").ok()
}

/// The same, if the command is to have it. In a pipeline, `| less` needs the foreground, which it shares with `lockctl`.
fn for_the_command() -> Option<File> {
    (stdin().is_terminal() && stdout().is_terminal()).then(controlling).flatten()
}

/// True if a terminal controls this process.
pub(super) fn is_there() -> bool {
    controlling().is_some()
}

/// True if a shell can stop this job and let it go on: the parent of its first process is in the same session. Otherwise
/// its group is an orphan, which the kernel does not stop for a terminal either.
pub(super) fn is_job() -> bool {
    let Some((group, session)) = group_and_session(getpid()) else { return false };
    let mut at = getpid();
    while let Some(parent) = parent_of(at) {
        match group_and_session(parent) {
            Some((parents, _)) if parents == group => at = parent,
            Some((_, parents)) => return parents == session,
            None => return false,
        }
    }
    false
}

/// Makes `group` the foreground group if this process's own is. Only a process of the foreground group may do that: any
/// other is stopped for it. So nothing here takes the foreground; each owner hands it on.
pub(super) fn hand_to(group: Pid) {
    if let Some(terminal) = for_the_command()
        && let Ok(foreground) = tcgetpgrp(&terminal)
        && let Some((own, _)) = group_and_session(getpid())
        && own == foreground.as_raw_pid()
    {
        // Fails if the terminal has gone, which leaves nothing to hand on.
        let _ = tcsetpgrp(&terminal, group);
    }
}

/// Waits until the group of `parent` has handed the foreground on, and returns that group. `None` if it does not have it.
pub(super) async fn receive_from(parent: Pid) -> Option<Pid> {
    let terminal = for_the_command()?;
    // If the parent has been faster, its group is not in the foreground any more, and this one is.
    let foreground = tcgetpgrp(&terminal).ok()?;
    let group = Pid::from_raw(group_and_session(parent)?.0)?;
    if foreground != group && foreground != getpid() {
        return None;
    }
    let handed_on = async {
        while tcgetpgrp(&terminal) == Ok(group) {
            sleep(LOOK).await;
        }
    };
    // Without it, the command is stopped when it reads, and goes on when its job is in the foreground.
    let _ = timeout(PATIENCE, handed_on).await;
    Some(group)
}
