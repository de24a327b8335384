//! Which `redis-server` the tests run, and what it can do.

use std::ffi::OsString;
use std::fmt::Display;
use std::process::Command;
use std::sync::LazyLock;

static PATH: LazyLock<OsString> =
    LazyLock::new(|| std::env::var_os("REDIS_SERVER").unwrap_or_else(|| "redis-server".into()));

/// The major version, found once.
static MAJOR: LazyLock<Result<u32, String>> = LazyLock::new(|| {
    let output = Command::new(&*PATH).arg("--version").output().map_err(|error| missing(&error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    major(&text).ok_or_else(|| missing(&format!("its version is not to be found in {text:?}")))
});

/// What to start.
pub(super) fn path() -> &'static OsString {
    &PATH
}

/// What a test says that finds no server.
pub(super) fn missing(why: &impl Display) -> String {
    format!(
        "this test needs redis-server, and `{}` cannot be run: {why}. Run the tests with \
         `cargo xtask test`, which finds or installs it, or name one in REDIS_SERVER.",
        PATH.display()
    )
}

/// The arguments that let a test use `DEBUG`: from version 7 it is off, before it there is no such
/// setting and the server refuses to start with one.
pub(super) fn debug_args() -> &'static [&'static str] {
    match &*MAJOR {
        Ok(..7) => &[],
        Ok(_) => &["--enable-debug-command", "yes"],
        Err(report) => panic!("{report}"),
    }
}

/// The major version out of `Redis server v=7.0.15 sha=…`.
fn major(version: &str) -> Option<u32> {
    let (_, rest) = version.split_once("v=")?;
    rest.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_server_names_the_way_out() {
        let report = missing(&"No such file or directory");
        assert!(report.contains("cargo xtask test"), "{report}");
        assert!(report.contains("REDIS_SERVER"), "{report}");
    }
}
