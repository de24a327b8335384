//! The terminal, which lets one process group read: that in the foreground. A command in a group of its own would be
//! stopped at its first read, so `lockctl run` lends it the foreground, as a shell does.
//!
//! `flock` and `timeout --foreground` keep the command in their own group instead. Then Ctrl-C reaches the command twice,
//! once from the terminal and once passed on, and what the command has started cannot be ended with it.

use std::io::stdin;
use std::time::Duration;

use rustix::process::{Pid, getpgrp};
use rustix::termios::{tcgetpgrp, tcsetpgrp};
use tokio::time::{sleep, timeout};

/// How often, and for how long, the leader of a group looks whether it has the foreground.
const LOOK: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(1);

/// True if the standard input is the terminal that controls this process.
pub(super) fn is_there() -> bool {
    tcgetpgrp(stdin()).is_ok()
}

/// Makes `group` the foreground group if this process's own is. Only a process of the foreground group may do that: any
/// other is stopped for it. So nothing here takes the foreground; each owner hands it on.
pub(super) fn hand_to(group: Pid) {
    if tcgetpgrp(stdin()) == Ok(getpgrp()) {
        // Fails if the terminal has gone, which leaves nothing to hand on.
        let _ = tcsetpgrp(stdin(), group);
    }
}

/// Waits until `group` has handed the foreground on, if it has it.
pub(super) async fn wait_for(group: Pid) {
    let handed_on = async {
        while tcgetpgrp(stdin()) == Ok(group) {
            sleep(LOOK).await;
        }
    };
    // Without it, the command is stopped when it reads, and goes on when its job is in the foreground.
    let _ = timeout(PATIENCE, handed_on).await;
}
