//! The spelling of everything that people read.

use crate::Failure;
use crate::cargo::Step;
use crate::tool::Tool;

const TYPOS: Tool = Tool {
    name: "typos",
    package: "typos-cli",
    wheel: "typos",
    version: "1.52.0",
    probe: &["--version"],
};

/// Checks the files that git keeps, by `typos.toml`.
///
/// # Errors
///
/// When typos cannot be installed, or finds a word that is misspelt.
pub(crate) fn run() -> Result<(), Failure> {
    let typos = Step::program(TYPOS.find_or_install()?, "typos");
    // Hidden folders have templates and workflows.
    typos.in_background().args(&["--hidden", "--exclude", ".git/", "--format", "brief"]).run()
}
