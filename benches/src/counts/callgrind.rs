//! Runs of this program, or of its server, in valgrind's callgrind.

use std::ffi::OsString;
use std::fs;
use std::io::{Read as _, Seek as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::load::{Load, WORK};
use super::relay::Relay;
use crate::Result;

/// The functions of the C library that allocate, which Rust's allocator calls.
const ALLOCATORS: [&str; 5] = ["malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc"];

/// What a process did, from its start to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) instructions: u64,
    /// Calls of `malloc` and its like, reallocations included.
    pub(super) allocations: u64,
    pub(super) system_calls: u64,
    /// Readings of a clock. They are system calls in valgrind only; elsewhere the kernel's page of code answers.
    pub(super) clock_reads: u64,
}

/// The system call that reads a clock.
const READ_CLOCK: &str = "sys_clock_gettime";

/// Runs a load in a process of its own and counts what this process does.
///
/// # Errors
///
/// When valgrind is missing, or the run fails.
pub(super) fn count_client(load: &Load) -> Result<Counted> {
    let folder = tempfile::tempdir()?;
    let (log, profile) = (folder.path().join("log"), folder.path().join("profile"));
    let mut run = Command::new("valgrind");
    run.args(options(&log, &profile)).arg("--trace-syscalls=yes");
    // Names in full, which are easier to find.
    run.args(["--compress-strings=no", "--compress-pos=no"]).arg(std::env::current_exe()?);
    finish(run, &slowed(load))?;
    let log = fs::read_to_string(&log)?;
    let is_clock = |call: &&str| call.starts_with(READ_CLOCK);
    let clock_reads = system_calls(&log).filter(is_clock).count() as u64;
    Ok(Counted {
        instructions: instructions(&log)?,
        allocations: allocations(&fs::read_to_string(profile)?),
        system_calls: system_calls(&log).count() as u64 - clock_reads,
        clock_reads,
    })
}

/// Runs a load in a process of its own and counts the instructions of the server that it starts.
///
/// # Errors
///
/// When valgrind is missing, or the run fails.
pub(super) fn count_server(load: &Load) -> Result<u64> {
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("log");
    let mut run = Command::new(std::env::current_exe()?);
    run.env("REDIS_SERVER", server_in_callgrind(&log, folder.path())?);
    finish(run, &slowed(load))?;
    instructions(&fs::read_to_string(log)?)
}

/// Runs a load in a process of its own, as fast as it goes.
///
/// # Errors
///
/// When the run fails.
pub(super) fn run_alone(load: &Load) -> Result<()> {
    finish(Command::new(std::env::current_exe()?), load)
}

fn slowed(load: &Load) -> Load {
    Load { slowed: true, ..load.clone() }
}

/// Runs a load and waits for its end. The nodes of a cluster would tell the client their own addresses, so these have no relay.
fn finish(mut run: Command, load: &Load) -> Result<()> {
    let mut load = load.clone();
    // Makes the short time limits of lock-runtime longer. Also where the client runs as fast as it goes: a busy machine must not
    // make its batches smaller.
    run.env("LOCK_IN_VALGRIND", "yes");
    let relay = match &load.urls[..] {
        [server] if load.has_turns() => Some(Relay::for_server(server)?),
        _ => None,
    };
    if let Some(relay) = &relay {
        load.urls = vec![relay.url()?];
    }
    // A file: a pipe could fill while the relay runs, and the load would wait for ever.
    let mut said = tempfile::tempfile()?;
    run.args([WORK, &load.to_string()]).stdin(Stdio::null()).stdout(Stdio::null());
    run.stderr(said.try_clone()?);
    let mut child =
        run.spawn().map_err(|error| format!("cannot run {run:?} (is valgrind there?): {error}"))?;
    if let Some(relay) = &relay {
        let relayed = relay.run(child.id(), || Ok(child.try_wait()?.is_some()));
        if relayed.is_err() {
            child.kill()?;
            child.wait()?;
        }
        relayed?;
    }
    let status = child.wait()?;
    if !status.success() {
        let mut text = String::new();
        said.rewind()?;
        said.read_to_string(&mut text)?;
        return Err(format!("{load}: {status}\n{text}").into());
    }
    Ok(())
}

/// A program that runs the server in callgrind, for a harness that starts `REDIS_SERVER`.
fn server_in_callgrind(log: &Path, folder: &Path) -> Result<OsString> {
    let server = std::env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
    let options = options(log, &folder.join("profile"));
    let words: Vec<_> = options.iter().map(|it| it.display().to_string()).collect();
    let words = words.join("' '");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && exec '{server}' --version\n\
         exec valgrind '{words}' '{server}' \"$@\"\n"
    );
    let path = folder.join("redis-server");
    fs::write(&path, script)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path.into_os_string())
}

fn options(log: &Path, profile: &Path) -> [OsString; 3] {
    let option = |name: &str, path: &Path| {
        let mut option = OsString::from(name);
        option.push(path);
        option
    };
    [
        "--tool=callgrind".into(),
        option("--log-file=", log),
        option("--callgrind-out-file=", profile),
    ]
}

/// The count of the line `==123== Collected : 4567`.
fn instructions(log: &str) -> Result<u64> {
    let collected = || log.rsplit_once("Collected : ")?.1.lines().next()?.trim().parse().ok();
    collected().ok_or_else(|| format!("callgrind printed no count:\n{log}").into())
}

/// The system calls, each from its name on. A line such as `SYSCALL[123,1](44) sys_sendto ( 9, … ) --> [async] ...`
/// begins one; its result may have a line of its own, `SYSCALL[123,1](44) ... [async] --> Success(0x2a)`.
fn system_calls(log: &str) -> impl Iterator<Item = &str> {
    let calls = log.lines().filter_map(|line| line.strip_prefix("SYSCALL[")?.split_once(") "));
    calls.map(|(_, call)| call).filter(|call| !call.starts_with("..."))
}

/// The sum of the calls of [`ALLOCATORS`]. A profile names each callee, and how often its caller called it, as
/// `cfn=malloc` and `calls=12 0` in the next line.
fn allocations(profile: &str) -> u64 {
    let mut is_allocator = false;
    let mut sum = 0;
    for line in profile.lines() {
        if let Some(callee) = line.strip_prefix("cfn=") {
            is_allocator = ALLOCATORS.contains(&callee);
        } else if let Some(calls) = line.strip_prefix("calls=").filter(|_| is_allocator) {
            let count = calls.split(' ').next().and_then(|count| count.parse::<u64>().ok());
            sum += count.unwrap_or_default();
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read() {
        let log = "\
            ==7== Callgrind, a call-graph generating cache profiler\n\
            SYSCALL[7,1](202) sys_futex ( 0x4a09dd5, 129, 1 ) --> [async] ... \n\
            SYSCALL[7,2](232) sys_epoll_wait ( 3, 0x403e2a0, 1024, -1 ) --> [async] ... \n\
            SYSCALL[7,1](202) ... [async] --> Success(0x1) \n\
            SYSCALL[7,1](3) sys_close ( 4 )[sync] --> Success(0x0) \n\
            ==7== Collected : 567573\n\
            ==7== \n";
        let names = system_calls(log).map(|call| call.split(' ').next());
        let expected = ["sys_futex", "sys_epoll_wait", "sys_close"];
        assert_eq!(names.flatten().collect::<Vec<_>>(), expected);
        assert_eq!(instructions(log).ok(), Some(567_573));
        assert!(instructions("==7== Callgrind\n").is_err());
    }

    #[test]
    fn a_profile_is_read() {
        let profile = "\
            fn=main\n12 40\ncfn=malloc\ncalls=3 0\n13 90\ncfi=vec.rs\ncfn=grow\ncalls=100 7\n14 5\n\
            fn=grow\ncob=libc.so.6\ncfn=realloc\ncalls=2 0\n";
        assert_eq!(allocations(profile), 5);
    }
}
