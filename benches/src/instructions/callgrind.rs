//! Runs of this program, or of its server, in callgrind.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Result;
use crate::instructions::work::{Load, WORK};

/// Where instructions are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    Client,
    Server,
}

/// Runs a load in a process of its own and counts all instructions of the client or of the server.
///
/// # Errors
///
/// When valgrind is missing, or the run fails.
pub(super) fn count(counted: Counted, load: Load) -> Result<u64> {
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("log");
    let myself = std::env::current_exe()?;
    let mut run = match counted {
        Counted::Client => {
            let mut run = Command::new("valgrind");
            run.args(options(&log, folder.path())).arg(myself);
            run
        }
        Counted::Server => {
            let mut run = Command::new(myself);
            run.env("REDIS_SERVER", server_in_callgrind(&log, folder.path())?);
            run
        }
    };
    let output = run.args([WORK, &load.to_string()]).stdin(Stdio::null()).output();
    let output =
        output.map_err(|error| format!("cannot run {run:?} (is valgrind there?): {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{load} in callgrind: {}\n{said}", output.status).into());
    }
    let log = fs::read_to_string(&log)?;
    collected(&log).ok_or_else(|| format!("callgrind printed no count:\n{log}").into())
}

/// A program that runs the server in callgrind, for a harness that starts `REDIS_SERVER`.
fn server_in_callgrind(log: &Path, folder: &Path) -> Result<OsString> {
    let server = std::env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
    let words: Vec<_> = options(log, folder).iter().map(|it| it.display().to_string()).collect();
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

/// A system call is not counted, and a program that polls in user space would be.
fn options(log: &Path, folder: &Path) -> [OsString; 3] {
    let option = |name: &str, path: &Path| {
        let mut option = OsString::from(name);
        option.push(path);
        option
    };
    [
        "--tool=callgrind".into(),
        option("--log-file=", log),
        option("--callgrind-out-file=", &folder.join("profile")),
    ]
}

/// The count of the line `==123== Collected : 4567`.
fn collected(log: &str) -> Option<u64> {
    let (_, count) = log.rsplit_once("Collected : ")?;
    count.lines().next()?.trim().parse().ok()
}
