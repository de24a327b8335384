//! Programs of database servers, which refuse to run as root.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use std::{env, iter};

use lock_tests::eventually;
use lock_tests::leash::{EndBy, Leash};
use tempfile::TempDir;

/// How long a server may take to answer, on a busy machine.
const START_BOUND: Duration = Duration::from_secs(60);

/// Where Debian keeps what is not for the `PATH` of every user. The newest PostgreSQL is the last one.
fn usual_dirs() -> Vec<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut dirs: Vec<_> = versions.map(|version| version.path().join("bin")).collect();
    dirs.sort_unstable();
    dirs.reverse();
    dirs.push("/usr/sbin".into());
    dirs
}

/// The path of a program.
///
/// Panics when it is not installed.
fn find(program: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    // Debian's folder first: on a PATH there may be a script in front of the program that takes other arguments.
    let dirs = usual_dirs().into_iter().chain(env::split_paths(&path));
    let found = dirs.map(|dir| dir.join(program)).find(|program| program.is_file());
    found.unwrap_or_else(|| {
        panic!("{program} is not installed; `cargo xtask test --with-databases` installs it")
    })
}

/// A folder for a server that runs as `user` if the test runs as root, and else as the test's user.
#[derive(Debug)]
pub(crate) struct Home {
    dir: TempDir,
    /// The numbers of a user and its group.
    user: Option<(u32, u32)>,
}

impl Home {
    pub(crate) fn new(user: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("lock-db-").tempdir();
        let dir = dir.expect("there is room for a temporary folder");
        let is_root = rustix::process::geteuid().is_root();
        let user = is_root.then(|| (id("-u", user), id("-g", user)));
        if let Some((user, group)) = user {
            chown(dir.path(), Some(user), Some(group)).expect("root gives its folder away");
        }
        Self { dir, user }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The program, to be run as the user of this folder.
    fn command<S: AsRef<OsStr>>(
        &self,
        program: &str,
        args: impl IntoIterator<Item = S>,
    ) -> Command {
        let program = find(program);
        let mut command = match self.user {
            // It becomes the program, so that signals reach that.
            Some((user, group)) => {
                let mut command = Command::new("setpriv");
                command.args([format!("--reuid={user}"), format!("--regid={group}")]);
                command.arg("--clear-groups").arg(program);
                command
            }
            None => Command::new(program),
        };
        command.args(args).current_dir(self.path()).env("HOME", self.path()).stdin(Stdio::null());
        command
    }

    /// Runs a program to its end.
    ///
    /// Panics when it fails.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, program: &str, args: impl IntoIterator<Item = S>) {
        let output = self.command(program, args).output();
        let Output { status, stdout, stderr } =
            output.unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
        let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "{program} failed: {status}\n{stdout}{stderr}");
    }

    /// Starts a server, and waits until it answers.
    ///
    /// Panics when it does not.
    pub(crate) async fn serve<S: AsRef<OsStr>>(
        &self,
        program: &str,
        args: impl IntoIterator<Item = S>,
        end: EndBy,
        mut answers: impl AsyncFnMut() -> bool,
    ) -> Leash {
        let log = self.path().join(format!("{program}.log"));
        let output = File::create(&log).expect("the server's folder is writable");
        let mut command = self.command(program, args);
        command.stdout(output.try_clone().expect("a file can be duplicated")).stderr(output);
        let mut leash = Leash::spawn(&mut command, Some(self.path()), end)
            .unwrap_or_else(|error| panic!("cannot start {program}: {error}"));
        eventually(START_BOUND, &format!("{program} answers"), async || {
            if let Some(status) = leash.try_wait().expect("one's own child can be waited for") {
                let log = fs::read_to_string(&log).unwrap_or_default();
                panic!("{program} ended with {status}:\n{log}");
            }
            answers().await
        })
        .await;
        leash
    }
}

/// The number of a system user, or of its group.
///
/// Panics when there is no such user.
fn id(which: &str, user: &str) -> u32 {
    let output = Command::new("id").args([which, user]).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run id: {error}"));
    let id = String::from_utf8_lossy(&output.stdout).trim().parse();
    id.unwrap_or_else(|_| {
        panic!("there is no user {user}; `cargo xtask test --with-databases` installs its server")
    })
}

/// Options `-c name=value`.
pub(crate) fn settings<'a>(settings: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    settings.iter().flat_map(|setting| iter::once("-c").chain([*setting]))
}
