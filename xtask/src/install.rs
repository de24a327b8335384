//! Installing programs with the system's package manager.

use std::env;
use std::io::{self, BufRead, IsTerminal, Write};
use std::process::{Command, Stdio};

use crate::Failure;

/// Run by a shell as root, with the name of the package.
const APT_SCRIPT: &str = include_str!("install_package.sh");

/// A program that a command here needs.
pub(crate) struct Package {
    /// The program, and its package for `apt-get`.
    name: &'static str,
    /// Its package for `brew`, if it has one that works.
    brew: Option<&'static str>,
    /// What needs it, and how to install it by hand.
    by_hand: &'static str,
}

pub(crate) const REDIS_SERVER: Package = Package {
    name: "redis-server",
    brew: Some("redis"),
    by_hand: "\
The tests need a redis-server, version 7.0 or later; they start it themselves, and need no
service. Install it with one of

    sudo apt-get install redis-server      # Debian, Ubuntu
    sudo dnf install redis                 # Fedora
    sudo apk add redis                     # Alpine
    sudo pacman -S redis                   # Arch
    brew install redis                     # macOS

or set REDIS_SERVER to the path of one, and run this again.",
};

/// Valgrind does not run on macOS today.
const VALGRIND: Package = Package {
    name: "valgrind",
    brew: None,
    by_hand: "\
Instructions, allocations and system calls are counted by valgrind. Install it on Linux with one of

    sudo apt-get install valgrind          # Debian, Ubuntu
    sudo dnf install valgrind              # Fedora
    sudo apk add valgrind                  # Alpine
    sudo pacman -S valgrind                # Arch

and run this again.",
};

/// It brings the browser along.
const CHROMIUM_DRIVER: Package = Package {
    name: "chromium-driver",
    brew: None,
    by_hand: "\
The console is tested in headless Chromium, driven by chromedriver. Install both with one of

    sudo apt-get install chromium-driver   # Debian
    sudo dnf install chromedriver          # Fedora
    sudo apk add chromium-chromedriver     # Alpine

and run this again.",
};

/// The servers that `tests/databases` starts, each with a program that shows that it is there.
const DATABASES: [(&str, Package); 3] = [
    ("initdb", database("postgresql")),
    ("mariadbd", database("mariadb-server")),
    ("pgbouncer", database("pgbouncer")),
];

const fn database(name: &'static str) -> Package {
    let by_hand = "\
The tests of fenced transactions start PostgreSQL, pgbouncer and MariaDB themselves, and need no service. Install them on Linux with

    sudo apt-get install postgresql pgbouncer mariadb-server      # Debian, Ubuntu

or run the tests without `--with-databases`.";
    Package { name, brew: None, by_hand }
}

/// Installs the databases that are missing.
///
/// # Errors
///
/// As [`install`].
pub(crate) fn ensure_databases() -> Result<(), Failure> {
    let is_missing = |program: &str| !has(program) && !is_in_usual_dir(program);
    DATABASES.iter().filter(|(program, _)| is_missing(program)).try_for_each(|(_, it)| install(it))
}

/// Whether Debian has it in a folder that is not on the `PATH` of every user.
fn is_in_usual_dir(program: &str) -> bool {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let dirs = versions.map(|version| version.path().join("bin"));
    dirs.chain(["/usr/sbin".into()]).any(|dir| dir.join(program).is_file())
}

/// Installs Chromium and its driver if they are not on the `PATH`.
///
/// # Errors
///
/// As [`install`].
pub(crate) fn ensure_chromedriver() -> Result<(), Failure> {
    if has("chromedriver") { Ok(()) } else { install(&CHROMIUM_DRIVER) }
}

/// Installs valgrind if it is not on the `PATH`.
///
/// # Errors
///
/// As [`install`].
pub(crate) fn ensure_valgrind() -> Result<(), Failure> {
    if has(VALGRIND.name) { Ok(()) } else { install(&VALGRIND) }
}

/// Installs the package.
///
/// # Errors
///
/// With what to do by hand, when there is no package manager that this knows, no way to become
/// root without asking, or the installation fails.
pub(crate) fn install(package: &Package) -> Result<(), Failure> {
    let name = package.name;
    if !has("apt-get") {
        let Some(brew) = package.brew.filter(|_| has("brew")) else {
            let why = format!("{name} is not installed, and neither apt-get nor brew can do that");
            return Err(by_hand(package, &why));
        };
        eprintln!("xtask: {name} is not installed; installing it with brew");
        return run(package, Command::new("brew").args(["install", brew]));
    }
    let script = ["-c", APT_SCRIPT, "sh", name];
    if is_root() {
        eprintln!("xtask: {name} is not installed; installing it with apt-get");
        return run(package, Command::new("sh").args(script));
    }
    if !has("sudo") {
        return Err(by_hand(
            package,
            &format!("{name} is not installed; only root can install it"),
        ));
    }
    let mut sudo = Command::new("sudo");
    if is_interactive() {
        if !agrees(&format!("{name} is not installed. Install it with `sudo apt-get`? [y/N] ")) {
            return Err(by_hand(package, &format!("{name} is not installed")));
        }
    } else {
        // Fails where sudo would ask for a password.
        sudo.arg("-n");
    }
    run(package, sudo.arg("sh").args(script))
}

fn run(package: &Package, command: &mut Command) -> Result<(), Failure> {
    let name = package.name;
    // This asks nothing; sudo may ask at the terminal.
    command.stdin(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(by_hand(package, &format!("installing {name} failed ({status})"))),
        Err(error) => Err(by_hand(package, &format!("installing {name} failed ({error})"))),
    }
}

fn by_hand(package: &Package, why: &str) -> Failure {
    Failure::message(format!("{why}.\n{}", package.by_hand))
}

fn has(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

fn is_root() -> bool {
    let user = Command::new("id").arg("-u").output();
    user.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// Whether a user can be asked: continuous integration sets `CI`.
pub(crate) fn is_interactive() -> bool {
    env::var_os("CI").is_none() && io::stdin().is_terminal() && io::stderr().is_terminal()
}

fn agrees(question: &str) -> bool {
    eprint!("{question}");
    let mut answer = String::new();
    let asked = io::stderr().flush().and_then(|()| io::stdin().lock().read_line(&mut answer));
    asked.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}
