//! Where `redis-server` is.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::{Failure, install};

const PROGRAM: &str = "redis-server";

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
    let server = match env::var_os("REDIS_SERVER") {
        Some(named) => Server::at(named.into()).ok_or_else(|| {
            let named = env::var_os("REDIS_SERVER").unwrap_or_default();
            Failure::message(format!(
                "REDIS_SERVER is `{}`, which is no redis-server that runs; set it to one, or unset it",
                named.display()
            ))
        })?,
        None => match find().filter(Server::is_new_enough) {
            Some(found) => found,
            None => {
                install::install(&install::REDIS_SERVER)?;
                find().ok_or_else(|| {
                    Failure::message(
                        "redis-server was installed, but is not on the PATH; set REDIS_SERVER to its path",
                    )
                })?
            }
        },
    };
    if !server.is_new_enough() {
        return Err(Failure::message(format!(
            "{} is Redis {}; the tests need Redis {OLDEST}.0 or later: set REDIS_SERVER to the path of one",
            server.program.display(),
            server.version
        )));
    }
    eprintln!("==> Redis {} ({})", server.version, server.program.display());
    Ok(server.program)
}

/// A redis-server that runs.
#[derive(Debug, PartialEq)]
struct Server {
    program: PathBuf,
    version: String,
}

impl Server {
    /// `None` if this is no program that tells its version as redis-server does.
    fn at(program: PathBuf) -> Option<Self> {
        let mut command = Command::new(&program);
        let output = command.arg("--version").stdin(Stdio::null()).output().ok()?;
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = told.split_whitespace().find_map(|word| word.strip_prefix("v="))?;
        Some(Self { program, version: version.to_owned() })
    }

    fn is_new_enough(&self) -> bool {
        let major = self.version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        major.is_some_and(|major| major >= OLDEST)
    }
}

fn find() -> Option<Server> {
    let path = env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<_> = env::split_paths(&path).chain(env::split_paths(USUAL_DIRS)).collect();
    find_in(&dirs)
}

/// The first redis-server in one of these directories that is new enough, else the first that runs.
fn find_in(dirs: &[PathBuf]) -> Option<Server> {
    let mut first = None;
    for server in dirs.iter().filter_map(|dir| Server::at(dir.join(PROGRAM))) {
        if server.is_new_enough() {
            return Some(server);
        }
        first.get_or_insert(server);
    }
    first
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

    fn says(version: &str) -> String {
        format!(
            "#!/bin/sh\n[ \"$1\" = --version ] && echo 'Redis server v={version} sha=0:0 bits=64'\n"
        )
    }

    #[test]
    fn the_first_that_is_new_enough_is_found() {
        let plain = dir("plain", &says("7.0.15"), 0o644);
        let broken = dir("broken", "#!/bin/sh\nexit 1\n", 0o755);
        let old = dir("old", &says("6.2.14"), 0o755);
        let good = dir("good", &says("7.0.15"), 0o755);
        let newer = dir("newer", &says("10.2.0"), 0o755);
        let none = PathBuf::from("/no/such/dir");
        let found = |dirs: &[&PathBuf]| {
            let dirs: Vec<PathBuf> = dirs.iter().copied().cloned().collect();
            find_in(&dirs).map(|server| (server.program, server.version))
        };
        assert_eq!(found(&[&none, &plain, &broken]), None);
        let expected = (good.join(PROGRAM), "7.0.15".to_owned());
        assert_eq!(found(&[&none, &plain, &broken, &old, &good, &newer]), Some(expected));
        assert_eq!(found(&[&old]), Some((old.join(PROGRAM), "6.2.14".to_owned())));
        assert!(find_in(std::slice::from_ref(&newer)).is_some_and(|server| server.is_new_enough()));
        assert!(find_in(std::slice::from_ref(&old)).is_some_and(|server| !server.is_new_enough()));
        for dir in [plain, broken, old, good, newer] {
            fs::remove_dir_all(dir).unwrap();
        }
    }
}
