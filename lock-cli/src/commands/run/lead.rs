//! `lockctl lead`: the process between `lockctl run` and the command, and the leader of the command's process group.
//!
//! The kernel can tell a process that its parent has died, but not a whole group, and not a program that does not know
//! of it. The leader is told, and kills the group. It also knows when the last process of the group has ended, and it
//! hands the terminal back.

use std::process::Command;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_current_process_group, wait, waitpgid,
};

use super::signals::{Signals, passed_on};
use super::{exit_code, terminal};
use crate::answer::Answer;
use crate::args::Lead;
use crate::failure::{Failure, NO};

/// Says that the parent has died. A signal that nobody sends to a group, and that ends no process.
const PARENT_DIED: Signal = Signal::URG;

pub(in crate::commands) async fn lead(lead: &Lead) -> Result<Answer, Failure> {
    // What is passed on to the group is for the command: its leader has handlers, which the command does not inherit.
    let mut signals = Signals::new(passed_on().chain([PARENT_DIED, Signal::CHILD]))?;
    follow_parent()?;
    let parent = Pid::from_raw(lead.parent);
    let is_orphan = || getppid() != parent;
    // The parent may have died before the kernel was asked to say so.
    if is_orphan() {
        return Ok(Answer::end().with_code(NO));
    }
    let hands_back_to = match parent {
        Some(parent) => terminal::receive_from(parent).await,
        None => None,
    };
    let [program, arguments @ ..] = &lead.command[..] else {
        return Err(Failure::usage("no command is given; write it behind --"));
    };
    let command = Command::new(program).args(arguments).spawn();
    let command = command.map_err(|error| Failure::not_started(program, &error))?;
    let command = Pid::from_child(&command);
    let mut code = None;
    loop {
        if is_orphan() {
            // This process, too.
            let _ = kill_current_process_group(Signal::KILL);
        }
        // All children, since this process adopts what the command leaves behind, also in other groups.
        while let Ok(Some((child, status))) = wait(WaitOptions::NOHANG) {
            if child == command {
                code = Some(exit_code(status));
            }
        }
        // The group has the number of its leader.
        if let Some(code) = code
            && waitpgid(getpid(), WaitOptions::NOHANG).err() == Some(Errno::CHILD)
        {
            if let Some(group) = hands_back_to {
                terminal::hand_to(group);
            }
            return Ok(Answer::end().with_code(code));
        }
        signals.next().await;
    }
}

/// Has the kernel send [`PARENT_DIED`], and make this process the parent of what the command leaves behind.
#[cfg(target_os = "linux")]
fn follow_parent() -> Result<(), Failure> {
    use rustix::process::{set_child_subreaper, set_parent_process_death_signal};

    // The signal follows the thread that started this process: in `lockctl run` its main thread, which lives to the end.
    let told = set_parent_process_death_signal(Some(PARENT_DIED));
    told.and_then(|()| set_child_subreaper(Some(getpid()))).map_err(|error| {
        Failure::store(format!("the system does not say when lockctl dies: {error}"))
    })
}

/// Other systems have neither: the command outlives a killed `lockctl`, as its help says.
#[cfg(not(target_os = "linux"))]
fn follow_parent() -> Result<(), Failure> {
    Ok(())
}
