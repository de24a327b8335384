//! The tests of the console in a real browser.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::cargo::{Step, build_folder};
use crate::{Failure, install, redis};

/// The checker of accessibility, and its file in the package.
const AXE: &str = "axe-core@4.14.1";
const AXE_FILE: &str = "package/axe.min.js";

/// Installs a browser if there is none, fetches axe-core, and runs the tests; args go to the test program.
///
/// The features are those of `cargo xtask test`, so that nothing is built twice.
///
/// # Errors
///
/// When one of the programs is missing and cannot be installed, or a test fails.
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    step(args)?.run()
}

/// The tests, as a step that is yet to run.
///
/// # Errors
///
/// When one of the programs is missing and cannot be installed.
pub(crate) fn step(args: &[String]) -> Result<Step, Failure> {
    install::ensure_chromedriver()?;
    let axe = axe()?;
    let test = &["--workspace", "--all-features", "--test=browser", "--", "--ignored"];
    let step = Step::new("test").args(test).args(args).env("AXE_JS", axe);
    Ok(step.env("REDIS_SERVER", redis::find_or_install()?))
}

/// Fetches axe-core below `target`, once. Only its file is used: nothing of the package runs.
fn axe() -> Result<PathBuf, Failure> {
    let folder = build_folder().join("tools").join("axe");
    let file = folder.join(AXE_FILE);
    if file.exists() {
        return Ok(file);
    }
    let cannot = |what: &str| {
        let what =
            format!("{what}; the tests of the console need npm, which fetches {AXE}, and tar");
        Failure::message(what)
    };
    std::fs::create_dir_all(&folder).map_err(|error| cannot(&error.to_string()))?;
    eprintln!("==> npm pack {AXE}");
    for (program, args) in [
        ("npm", &["pack", "--silent", AXE][..]),
        ("tar", &["-xzf", "axe-core-4.14.1.tgz", AXE_FILE]),
    ] {
        let status =
            Command::new(program).args(args).current_dir(&folder).stdin(Stdio::null()).status();
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => return Err(cannot(&format!("{program} failed ({status})"))),
            Err(error) => return Err(cannot(&format!("{program} cannot be run ({error})"))),
        }
    }
    Ok(file)
}
