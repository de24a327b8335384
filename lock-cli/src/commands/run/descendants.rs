//! The processes that a command has started, and theirs: also those that have left its process group or its session, as
//! `timeout`, `set -m` and `setsid` do.

use std::collections::HashMap;
use std::fs;

use rustix::process::{Pid, Signal, getpid, getppid, kill_process};

/// A process, as `/proc` shows it.
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    pub(super) is_zombie: bool,
}

/// Returns the descendants of a process, each behind its parent. `None` without Linux's `/proc`.
///
/// One look may miss a process whose parent ends meanwhile, so an end by force looks until there is none.
pub(super) fn descendants(ancestor: Pid) -> Option<Vec<Process>> {
    // The numbers of another PID namespace would be those of other processes.
    let own = fs::read_link("/proc/self").ok();
    if own.is_none_or(|own| own.to_str() != Some(&getpid().to_string())) {
        return None;
    }
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(process) = pid.and_then(process) {
            children.entry(process.parent).or_default().push(process);
        }
    }
    let mut found = children.remove(&ancestor.as_raw_pid()).unwrap_or_default();
    let mut at = 0;
    while let Some(process) = found.get(at) {
        found.extend(children.remove(&process.pid.as_raw_pid()).unwrap_or_default());
        at += 1;
    }
    Some(found)
}

/// Returns the parent of a process, if it has one that this process can see.
pub(super) fn parent_of(pid: Pid) -> Option<Pid> {
    match pid == getpid() {
        true => getppid(),
        false => Pid::from_raw(process(pid.as_raw_pid())?.parent),
    }
}

fn process(pid: i32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // In front is the name of the program, which may hold anything.
    let (_, stat) = stat.rsplit_once(')')?;
    let mut fields = stat.split_whitespace();
    let is_zombie = matches!(fields.next()?, "Z" | "X");
    let mut number = || fields.next()?.parse().ok();
    Some(Process {
        pid: Pid::from_raw(pid)?,
        parent: number()?,
        group: number()?,
        session: number()?,
        is_zombie,
    })
}

/// Sends a signal to each of them.
pub(super) fn send(processes: &[Process], signal: Signal) {
    for process in processes {
        // Fails if it has ended, or is another user's.
        let _ = kill_process(process.pid, signal);
    }
}
