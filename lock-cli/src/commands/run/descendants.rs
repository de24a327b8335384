//! The processes that a command has started, and theirs: also those that have left its process group or its session, as
//! `timeout`, `set -m` and `setsid` do.

use std::collections::HashMap;
use std::fs;

use rustix::process::{Pid, Signal, getpid, getppid, kill_process, kill_process_group};

/// A process, as `/proc` shows it.
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    state: u8,
}

impl Process {
    pub(super) fn is_zombie(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    /// True if it does nothing: a signal or a debugger has stopped it, or it has ended.
    pub(super) fn is_at_rest(&self) -> bool {
        self.is_zombie() || matches!(self.state, b'T' | b't')
    }
}

/// Returns the descendants of a process, each behind its parent. `None` without Linux's `/proc`.
///
/// A process whose parent ends during the look may be missing, so callers that must find all look again.
pub(super) fn descendants(ancestor: Pid) -> Option<Vec<Process>> {
    if !proc_is_ours() {
        return None;
    }
    let mut all: HashMap<i32, Vec<Process>> = HashMap::new();
    // Kernels without CONFIG_PROC_CHILDREN list no children.
    let lists = fs::exists("/proc/thread-self/children").unwrap_or(false);
    let entries = if lists { Vec::new() } else { numbers("/proc") };
    for process in entries.into_iter().filter_map(process) {
        all.entry(process.parent).or_default().push(process);
    }
    let mut children_of = |parent: Pid| match lists {
        true => listed(parent),
        false => all.remove(&parent.as_raw_pid()).unwrap_or_default(),
    };
    let mut found = children_of(ancestor);
    let mut at = 0;
    while let Some(process) = found.get(at) {
        found.extend(children_of(process.pid));
        at += 1;
    }
    Some(found)
}

/// True if `/proc` has the numbers of this process's PID namespace. Those of another would be other processes'.
fn proc_is_ours() -> bool {
    let own = fs::read_link("/proc/self").ok();
    own.is_some_and(|own| own.to_str() == Some(&getpid().to_string()))
}

/// Returns the children that the kernel lists, thread by thread.
fn listed(parent: Pid) -> Vec<Process> {
    let tasks = format!("/proc/{parent}/task");
    let mut children = Vec::new();
    for thread in numbers(&tasks) {
        let list = fs::read_to_string(format!("{tasks}/{thread}/children")).unwrap_or_default();
        children.extend(list.split_whitespace().filter_map(|pid| process(pid.parse().ok()?)));
    }
    children
}

/// Returns the names in a folder that are numbers.
fn numbers(folder: &str) -> Vec<i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the parent of a process, if it has one that this process can see.
pub(super) fn parent_of(pid: Pid) -> Option<Pid> {
    match pid == getpid() {
        true => getppid(),
        false if !proc_is_ours() => None,
        false => Pid::from_raw(process(pid.as_raw_pid())?.parent),
    }
}

/// The process group and the session of a process. Either is 0 if its leader is in another PID namespace, as that of a
/// shell in a container is: rustix's `getpgid`, `getpgrp` and `getsid` take a 0 for impossible, and it is undefined
/// behaviour there.
pub(super) fn group_and_session(pid: Pid) -> Option<(i32, i32)> {
    #[cfg(target_os = "linux")]
    return proc_is_ours()
        .then(|| process(pid.as_raw_pid()))
        .flatten()
        .map(|process| (process.group, process.session));
    // There are no PID namespaces.
    #[cfg(not(target_os = "linux"))]
    {
        use rustix::process::{getpgid, getsid};
        Some((getpgid(Some(pid)).ok()?.as_raw_pid(), getsid(Some(pid)).ok()?.as_raw_pid()))
    }
}

fn process(pid: i32) -> Option<Process> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // In front is the name of the program, which may hold anything: the kernel cuts it within a character.
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = str::from_utf8(&stat[name_end + 1..]).ok()?.split_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let mut number = || fields.next()?.parse().ok();
    Some(Process {
        pid: Pid::from_raw(pid)?,
        parent: number()?,
        group: number()?,
        session: number()?,
        state,
    })
}

/// Sends a signal to each of them.
pub(super) fn send(processes: &[Process], signal: Signal) {
    for process in processes {
        // Fails if it has ended, or is another user's.
        let _ = kill_process(process.pid, signal);
    }
}

/// Ends them by force. If one leads a group, its whole group ends at once, so that no process escapes by a fork.
pub(super) fn end(processes: &[Process]) {
    for leader in processes.iter().filter(|process| process.group == process.pid.as_raw_pid()) {
        let _ = kill_process_group(leader.pid, Signal::KILL);
    }
    send(processes, Signal::KILL);
}
