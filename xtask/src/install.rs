//! Installing `redis-server` with the system's package manager.

use std::env;
use std::io::{self, BufRead, IsTerminal, Write};
use std::process::{Command, Stdio};

use crate::Failure;

/// Run by a shell as root.
const APT_SCRIPT: &str = include_str!("install_redis.sh");

/// Installs the package.
///
/// # Errors
///
/// With what to do by hand, when there is no package manager that this knows, no way to become
/// root without asking, or the installation fails.
pub(crate) fn redis_server() -> Result<(), Failure> {
    if !has("apt-get") {
        if !has("brew") {
            return Err(by_hand("redis-server is not installed; there is no apt-get and no brew"));
        }
        eprintln!("xtask: redis-server is not installed; installing it with brew");
        return run(Command::new("brew").args(["install", "redis"]));
    }
    if is_root() {
        eprintln!("xtask: redis-server is not installed; installing it with apt-get");
        return run(Command::new("sh").args(["-c", APT_SCRIPT]));
    }
    if !has("sudo") {
        return Err(by_hand("redis-server is not installed, and only root can install it"));
    }
    let mut sudo = Command::new("sudo");
    if is_interactive() {
        if !agrees("redis-server is not installed. Install it with `sudo apt-get`? [y/N] ") {
            return Err(by_hand("redis-server is not installed"));
        }
    } else {
        // Fails where sudo would ask for a password.
        sudo.arg("-n");
    }
    run(sudo.args(["sh", "-c", APT_SCRIPT]))
}

fn run(command: &mut Command) -> Result<(), Failure> {
    // Nobody is asked anything here except by sudo, which asks the terminal.
    command.stdin(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(by_hand(&format!("installing redis-server failed ({status})"))),
        Err(error) => Err(by_hand(&format!("installing redis-server failed ({error})"))),
    }
}

fn by_hand(why: &str) -> Failure {
    Failure::message(format!(
        "{why}.\n\
         The tests need a redis-server, version 7.0 or later; they start it themselves, and need no\n\
         service. Install it with one of\n\
         \n    sudo apt-get install redis-server      # Debian, Ubuntu\
         \n    sudo dnf install redis                 # Fedora\
         \n    sudo apk add redis                     # Alpine\
         \n    sudo pacman -S redis                   # Arch\
         \n    brew install redis                     # macOS\
         \n\n\
         or set REDIS_SERVER to the path of one, and run this again."
    ))
}

fn has(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

fn is_root() -> bool {
    let user = Command::new("id").arg("-u").output();
    user.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// Whether there is somebody to ask: continuous integration sets `CI`.
fn is_interactive() -> bool {
    env::var_os("CI").is_none() && io::stdin().is_terminal() && io::stderr().is_terminal()
}

fn agrees(question: &str) -> bool {
    eprint!("{question}");
    let mut answer = String::new();
    let asked = io::stderr().flush().and_then(|()| io::stdin().lock().read_line(&mut answer));
    asked.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}
