//! The tests beside the real Redisson: building their Java side, then running them.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cargo::{Step, Stopwatch, build_folder, workspace_root};
use crate::{Failure, redis};

/// The oldest Java that the program is written for.
const OLDEST_JAVA: u32 = 17;

/// The option that takes the place of the version in `tests/interop/pom.xml`.
const VERSION: &str = "--redisson=";

/// How processes share a key is a race between the clients, so ours runs as its users build it.
const OPTIMIZED: [&str; 2] = [
    "--config=profile.dev.package.lock-runtime.opt-level=3",
    "--config=profile.dev.package.redis.opt-level=3",
];

/// Builds the Java side and runs the tests. `--redisson=4.7.0` picks a version of Redisson; all other
/// arguments go to the test program.
///
/// # Errors
///
/// When Java, Maven or redis-server is missing, when the program cannot be built, or a test fails.
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    let (versions, rest): (Vec<_>, Vec<_>) = args.iter().partition(|arg| arg.starts_with(VERSION));
    let version = versions.last().and_then(|arg| arg.strip_prefix(VERSION));
    let java = java()?;
    let folder = build_java(version)?;
    let redis = redis::find_or_install()?;
    let test =
        ["--package=lock-tests", "--all-features", "--test=it", "interop::", "--", "--ignored"];
    let step = Step::new("test").args(&OPTIMIZED).args(&test).arg("--show-output").args(&rest);
    let step = step.env("INTEROP_BUILD", folder).env("INTEROP_JAVA", java);
    step.env("REDIS_SERVER", redis).run()
}

/// Compiles `tests/interop` beside what cargo builds, with Redisson from Maven's repository.
fn build_java(version: Option<&str>) -> Result<PathBuf, Failure> {
    let folder = build_folder().join("interop");
    let pom = Path::new(&workspace_root()).join("tests/interop/pom.xml");
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode", "--file"]).arg(&pom).arg("process-classes");
    let mut out = OsString::from("-Dout=");
    out.push(&folder);
    maven.arg(out).stdin(Stdio::null());
    if let Some(version) = version {
        maven.arg(format!("-Dredisson.version={version}"));
    }
    eprintln!("==> mvn process-classes in tests/interop");
    let clock = Stopwatch::start();
    match maven.status() {
        Ok(status) if status.success() => {
            eprintln!("==> {:.0?} for mvn", clock.elapsed());
            Ok(folder)
        }
        Ok(status) => Err(Failure::message(format!("building tests/interop failed: {status}"))),
        Err(error) => Err(missing(&format!("mvn (Maven) cannot be run: {error}"))),
    }
}

/// The program that runs Java, once it has said that it is recent enough.
fn java() -> Result<OsString, Failure> {
    let java = env::var_os("JAVA_HOME").map_or_else(
        || OsString::from("java"),
        |home| Path::new(&home).join("bin").join("java").into_os_string(),
    );
    let output = Command::new(&java).arg("-version").stdin(Stdio::null()).output();
    let said = match output {
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => {
            return Err(missing(&format!("{} cannot be run: {error}", java.display())));
        }
    };
    match major_version(&said) {
        Some(version) if version >= OLDEST_JAVA => Ok(java),
        _ => Err(missing(&format!(
            "{} is too old, or no Java: it says `{}`",
            java.display(),
            said.lines().next().unwrap_or_default()
        ))),
    }
}

/// The 17 of `openjdk version "17.0.15" 2025-04-15`; the 1 of Java 8's `"1.8.0_412"`.
fn major_version(said: &str) -> Option<u32> {
    let (_, version) = said.split_once("version \"")?;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn missing(why: &str) -> Failure {
    Failure::message(format!(
        "{why}.\n\
         The tests beside Redisson need a JDK, {OLDEST_JAVA} or later (on the PATH or in JAVA_HOME), and \
         Maven, for nothing\n\
         else. Install both with one of\n\
         \n    sudo apt-get install openjdk-17-jdk-headless maven   # Debian, Ubuntu\
         \n    sudo dnf install java-17-openjdk-devel maven         # Fedora\
         \n    brew install openjdk maven                           # macOS\
         \n\n\
         and run this again."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_java_are_read() {
        assert_eq!(major_version("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK"), Some(17));
        assert_eq!(major_version("openjdk version \"21\" 2023-09-19"), Some(21));
        assert_eq!(major_version("java version \"1.8.0_412\""), Some(1));
        assert_eq!(major_version("The operation couldn't be completed."), None);
    }
}
