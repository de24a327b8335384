//! Everything that has to pass.

use std::path::Path;

use crate::cargo::{self, Step};
use crate::{Failure, install, redis, test};

/// The crates that users name in their code.
const FOR_USERS: [&str; 3] = ["lock-runtime", "lock-tower", "lock-macros"];

/// Builds and runs the tests with the other checks beside them, and then what must not be disturbed.
///
/// # Errors
///
/// When a check fails; the first one, after all have run.
pub(crate) fn run() -> Result<(), Failure> {
    cargo::ensure_components(&["rustfmt", "clippy"])?;
    Step::new("fmt").args(&["--all", "--check"]).run()?;
    // Tests mostly wait, and the last test program is compiled on one core. What compiles beside them gets the
    // processor time that they leave, and has a target folder of its own, because cargo locks the folder while
    // it builds.
    let checks = std::thread::spawn(checks);
    let tests = test(&["--no-run".to_owned()]).and_then(|()| test(&["--no-fail-fast".to_owned()]));
    let checks = checks.join().map_err(|_| Failure::message("a check panicked"))?;
    if let (Err(_), Err(Failure { message, .. })) = (&tests, &checks) {
        eprintln!("xtask: {message}");
    }
    tests.and(checks)?;
    // Counts, and no time: what else the machine does must not decide.
    install::ensure_valgrind()?;
    let counts = benches("run").args(&["--", "--counts", "--strict"]);
    counts.env("REDIS_SERVER", redis::find_or_install()?).run()
}

/// Clippy, each feature alone, the documentation, the public API, and the build of the benchmarks, at the lowest priority.
fn checks() -> Result<(), Failure> {
    let deny = &["--", "-D", "warnings"];
    let everything = &["--workspace", "--all-targets", "--all-features"];
    Step::new("clippy").in_background().args(everything).args(deny).run()?;
    Step::new("clippy").in_background().args(&BENCHES).args(deny).run()?;
    features(1)?;
    let docs =
        Step::new("doc").in_background().args(&["--workspace", "--no-deps", "--all-features"]);
    docs.env("RUSTDOCFLAGS", "-D warnings").run()?;
    api(false)?;
    benches("build").in_background().run()
}

/// The benchmarks that CI runs, which are built from half as many crates as all of them.
const BENCHES: [&str; 4] =
    ["--package=lock-benches", "--no-default-features", "--features", "counts"];

/// Builds or runs these benchmarks.
fn benches(subcommand: &str) -> Step {
    let step = Step::new(subcommand).arg("--release").args(&BENCHES);
    let step = cargo::for_valgrind(step).env("CARGO_TARGET_DIR", cargo::checks_folder());
    // A build without debug information takes less time and space; only a profiler would read it.
    step.env("CARGO_PROFILE_RELEASE_DEBUG", "false")
}

/// Compares the public API of each crate with `tests/api/<crate>.txt`, or writes these files.
///
/// # Errors
///
/// When an API is not the one on record.
pub(crate) fn api(accept: bool) -> Result<(), Failure> {
    let root = cargo::workspace_root();
    let rustdoc = Path::new(&root).join("xtask/src/rustdoc_json.sh");
    for package in FOR_USERS {
        let json = &["--", "-Zunstable-options", "--output-format", "json"];
        let step = Step::new("rustdoc").in_background().args(&["--package", package]);
        step.args(&["--lib", "--all-features"]).args(json).env("RUSTDOC", &rustdoc).run()?;
        let json = format!("doc/{}.json", package.replace('-', "_"));
        let json = cargo::checks_folder().join(json).display().to_string();
        let on_record = format!("tests/api/{package}.txt");
        let check = &["--quiet", "--package", "lock-api-check", "--", &json, &on_record];
        let step = Step::new("run").in_background().args(check);
        let step = if accept { step.env("UPDATE_SNAPSHOTS", "yes") } else { step };
        step.run().map_err(|failure| Failure {
            message: format!(
                "the public API of {package} is not the one in {on_record}; if that is meant, \
                 `cargo xtask api --accept` and commit the file ({})",
                failure.message
            ),
            ..failure
        })?;
    }
    Ok(())
}

/// Checks every set of up to `depth` features of each crate with clippy, by cargo-hack.
///
/// # Errors
///
/// When cargo-hack cannot be installed, or a set has a warning.
pub(crate) fn features(depth: u8) -> Result<(), Failure> {
    let tools = cargo::checks_folder().join("tools");
    if !tools.join("bin").join("cargo-hack").exists() {
        let root = tools.display().to_string();
        let install = &["--quiet", "--debug", "--locked", "--root", &root, "cargo-hack@0.6.46"];
        Step::new("install").in_background().args(install).run()?;
    }
    let packages = FOR_USERS.iter().flat_map(|name| ["--package", name]).collect::<Vec<_>>();
    let hack = Step::program(tools.join("bin").join("cargo-hack"), "cargo-hack");
    let sets = &["--feature-powerset", "--depth", &depth.to_string()];
    let hack = hack.in_background().args(&["hack", "clippy"]).args(&packages).args(sets);
    hack.args(&["--", "-D", "warnings"]).run()
}
