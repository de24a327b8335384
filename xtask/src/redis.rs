//! Where `redis-server` is.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Failure, install};

/// Where package managers put it without changing the `PATH` of a shell that is open.
const USUAL_DIRS: &str = "/usr/bin:/usr/local/bin:/opt/homebrew/bin:/home/linuxbrew/.linuxbrew/bin";

/// The oldest major version whose script errors keep their codes.
const OLDEST: u32 = 7;

/// Returns the redis-server to use, and says which one that is; installs one if there is none.
///
/// # Errors
///
/// When the one that REDIS_SERVER names does not run or is too old, or none could be installed.
pub(crate) fn find_or_install() -> Result<PathBuf, Failure> {
    let missing = |what| {
        Failure::message(format!(
            "{what} no Redis {OLDEST}.0 or later; set REDIS_SERVER to its path"
        ))
    };
    if let Some(named) = env::var_os("REDIS_SERVER").map(PathBuf::from) {
        return works(&named).then_some(named).ok_or_else(|| missing("REDIS_SERVER is"));
    }
    if let Some(found) = find() {
        return Ok(found);
    }
    install::install(&install::REDIS_SERVER)?;
    find().ok_or_else(|| missing("redis-server was installed, but on the PATH is"))
}

/// The first one that is new enough.
fn find() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let dirs = env::split_paths(&path).chain(env::split_paths(USUAL_DIRS));
    dirs.map(|dir| dir.join("redis-server")).find(|program| works(program))
}

/// Whether it runs, and is new enough.
fn works(program: &Path) -> bool {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    let said = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let said = said.unwrap_or_default();
    let version = said.split_whitespace().find_map(|word| word.strip_prefix("v="));
    let major = version.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    let is_new = major.is_some_and(|major| major >= OLDEST);
    if is_new {
        eprintln!("==> Redis {} ({})", version.unwrap_or_default(), program.display());
    }
    is_new
}
