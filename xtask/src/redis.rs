//! Where `redis-server` is.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Failure, install};

const PROGRAM: &str = "redis-server";

/// Where package managers put it without changing the `PATH` of a shell that is open.
const USUAL_DIRS: &str = "/usr/bin:/usr/local/bin:/opt/homebrew/bin:/home/linuxbrew/.linuxbrew/bin";

/// The redis-server to use; installs one if there is none.
///
/// # Errors
///
/// When the one that REDIS_SERVER names does not run, or none could be installed.
pub(crate) fn find_or_install() -> Result<PathBuf, Failure> {
    if let Some(named) = env::var_os("REDIS_SERVER") {
        return if runs(Path::new(&named)) {
            Ok(named.into())
        } else {
            Err(Failure::message(format!(
                "REDIS_SERVER is `{}`, which does not run; set it to a redis-server, or unset it",
                named.display()
            )))
        };
    }
    if let Some(found) = find() {
        return Ok(found);
    }
    install::redis_server()?;
    find().ok_or_else(|| {
        Failure::message(
            "redis-server was installed, but is not to be found; set REDIS_SERVER to its path",
        )
    })
}

fn find() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    find_in(&path).or_else(|| find_in(OsStr::new(USUAL_DIRS)))
}

/// The first redis-server that runs in one of these directories.
fn find_in(path: &OsStr) -> Option<PathBuf> {
    env::split_paths(path).map(|dir| dir.join(PROGRAM)).find(|program| runs(program))
}

/// Whether this is a program that can be asked for its version.
fn runs(program: &Path) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A directory with a file of the program's name.
    fn dir(name: &str, script: &str, mode: u32) -> PathBuf {
        let dir = env::temp_dir().join(format!("xtask-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let program = dir.join(PROGRAM);
        fs::write(&program, script).unwrap();
        fs::set_permissions(program, fs::Permissions::from_mode(mode)).unwrap();
        dir
    }

    #[test]
    fn the_first_that_runs_is_found() {
        let plain = dir("plain", "#!/bin/sh\n", 0o644);
        let broken = dir("broken", "#!/bin/sh\nexit 1\n", 0o755);
        let good = dir("good", "#!/bin/sh\n[ \"$1\" = --version ]\n", 0o755);
        let none = PathBuf::from("/no/such/dir");
        let path = |dirs: &[&PathBuf]| env::join_paths(dirs).unwrap();
        assert_eq!(find_in(&path(&[&none, &plain, &broken])), None);
        assert_eq!(find_in(&path(&[&none, &plain, &broken, &good])), Some(good.join(PROGRAM)));
        for dir in [plain, broken, good] {
            fs::remove_dir_all(dir).unwrap();
        }
    }
}
