//! `lockctl lead`: the process between `lockctl run` and the command, and the leader of the command's process group.
//!
//! The kernel can tell a process that its parent has died, but not a whole group, and not a program that does not know
//! of it. The leader is told, and ends what the command has started. It adopts what leaves the command's group or
//! session, so `lockctl run` and the leader find that, too. It knows when the last process has ended, and it hands the
//! terminal back.

use std::process::Command;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_current_process_group, kill_process, wait,
};
use tokio::time::{Instant, sleep, timeout_at};

use super::descendants::{descendants, end, group_and_session};
use super::signals::{Signals, handles, passed_on};
use super::{BY_FORCE, LOOK, exit_code, exit_code_of, terminal};
use crate::answer::Answer;
use crate::args::Lead;
use crate::failure::{Failure, NO};

/// Says that the parent has died. A leader that is stopped goes on for it.
const PARENT_DIED: Signal = Signal::CONT;

/// `lockctl run` sends it before it ends the command: from then on, the leader also waits for daemons. A process that does
/// not handle it ignores it.
pub(super) const WAIT_FOR_ALL: Signal = Signal::URG;

/// The longest time between two looks whether what the command has left behind has become a daemon.
const LOOK_AT_REST: Duration = Duration::from_secs(2);

pub(in crate::commands) async fn lead(lead: &Lead) -> Result<Answer, Failure> {
    // The signals that the group gets are for the command. The leader handles them to outlive them, and the command does
    // not inherit handlers.
    let handled = passed_on().chain([PARENT_DIED, WAIT_FOR_ALL, Signal::CHILD]);
    let mut signals = Signals::new(handled)?;
    follow_parent()?;
    let parent = Pid::from_raw(lead.parent);
    let is_orphan = || getppid() != parent;
    let foreground_before = match parent {
        Some(parent) => terminal::receive_from(parent).await,
        None => None,
    };
    let [program, arguments @ ..] = &lead.command[..] else {
        return Err(Failure::usage("no command is given; write it behind --"));
    };
    // Only the handlers of this process know of a signal that has come so far.
    let ends = |signal: &Signal| ![PARENT_DIED, Signal::CHILD].contains(signal);
    if let Some(signal) = signals.arrived().await.into_iter().find(ends) {
        hand_back(foreground_before);
        return Ok(Answer::end().with_code(exit_code_of(signal.as_raw())));
    }
    // Also if the parent died before the kernel was asked to say so.
    if is_orphan() {
        return Ok(Answer::end().with_code(NO));
    }
    let command = Command::new(program).args(arguments).spawn();
    let command = command.map_err(|error| {
        hand_back(foreground_before);
        Failure::not_started(program, &error)
    })?;
    let command = Pid::from_child(&command);
    // A signal that came before the fork has not reached the command. One that came after it has ended the command, unless
    // the command handles it: such a command would get it twice.
    let mut arrived = signals.arrived().await;
    for signal in arrived.iter().filter(|signal| ends(signal) && !handles(command, **signal)) {
        let _ = kill_process(command, *signal);
    }
    let mut code = None;
    let mut waits_for_all = false;
    let (mut next_look, mut interval) = (Instant::now(), LOOK);
    loop {
        waits_for_all |= arrived.contains(&WAIT_FOR_ALL);
        if is_orphan() {
            end_all().await;
            hand_back(foreground_before);
            return Ok(Answer::end().with_code(NO));
        }
        // All children, since this process adopts what the command leaves behind.
        let is_alone = loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((child, status))) if child == command => code = Some(exit_code(status)),
                Ok(Some(_)) => {}
                Ok(None) => break false,
                Err(error) => break error == Errno::CHILD,
            }
        };
        // `WAIT_FOR_ALL` is sent before the signals that end the command, so it is here if the command has ended for them.
        arrived = signals.arrived().await;
        if !arrived.is_empty() {
            continue;
        }
        let Some(code) = code else {
            arrived = vec![signals.next().await];
            continue;
        };
        let looks = next_look <= Instant::now();
        if is_alone || looks && !waits_for_all && only_daemons_are_left() {
            hand_back(foreground_before);
            return Ok(Answer::end().with_code(code));
        }
        if looks {
            next_look = Instant::now() + interval;
            interval = LOOK_AT_REST.min(interval * 2);
        }
        arrived = timeout_at(next_look, signals.next()).await.into_iter().collect();
    }
}

/// True if each child is in a session of its own, or started by such a child.
fn only_daemons_are_left() -> bool {
    let Some((_, session)) = group_and_session(getpid()) else { return false };
    let mut children = descendants(getpid()).unwrap_or_default();
    children.retain(|process| process.parent == getpid().as_raw_pid());
    // There is a child. If it cannot be seen, it may be any.
    !children.is_empty() && children.iter().all(|child| child.session != session)
}

/// Ends all descendants by force. Those of another user stay.
async fn end_all() {
    let start = Instant::now();
    while start.elapsed() < BY_FORCE {
        match descendants(getpid()) {
            Some(left) => end(&left),
            // This process, too.
            None => drop(kill_current_process_group(Signal::KILL)),
        }
        sleep(LOOK).await;
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        if wait(WaitOptions::NOHANG).err() == Some(Errno::CHILD) {
            return;
        }
    }
}

/// Hands the terminal to the group that had it before.
fn hand_back(foreground_before: Option<Pid>) {
    if let Some(group) = foreground_before {
        terminal::hand_to(group);
    }
}

/// Has the kernel send [`PARENT_DIED`], and make this process the parent of what the command leaves behind.
fn follow_parent() -> Result<(), Failure> {
    // The signal follows the thread that started this process: in `lockctl run` its main thread, which lives to the end.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(PARENT_DIED)).map_err(|error| {
        Failure::store(format!("the system does not say when lockctl dies: {error}"))
    })?;
    adopt_orphans()
}

/// Makes this process the parent of what its descendants leave behind. Only Linux can, so on other systems the command
/// outlives a killed `lockctl`, as its help says.
pub(super) fn adopt_orphans() -> Result<(), Failure> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(getpid()))
        .map_err(|error| Failure::store(format!("the system lets orphans go: {error}")))?;
    Ok(())
}
