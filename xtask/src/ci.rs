//! Everything that has to pass.

use std::env;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use crate::cargo::{self, Step};
use crate::{Failure, cargo_test, checks, install, redis, test_step};

/// Builds and runs the tests with the other checks beside them.
///
/// Clippy compiles the tests: see [`with_clippy`]. Tests mostly wait, and the checks get the processor time that they leave. So
/// these begin when the tests have been built, which leaves none. They use the folder of the tests, so that macros and build scripts
/// are compiled once; what is counted is a program of that build. Two test programs at a time take as long as one after the other,
/// for want of processor time, and their limits of time are then too short.
///
/// # Errors
///
/// When a check fails; the first one, after all have run. Nothing else runs if the tests cannot be built, or what they need cannot be
/// installed.
pub(crate) fn run() -> Result<(), Failure> {
    if !settings().all(|(name, value)| env::var(name).is_ok_and(|it| it == value)) {
        let program = env::current_exe().map_err(|error| Failure::message(error.to_string()))?;
        return with_settings(Step::program(program, "xtask").arg("ci")).run();
    }
    cargo::ensure_components(&["rustfmt", "clippy"])?;
    checks::oldest_rust()?;
    Step::new("fmt").args(&["--all", "--check"]).run()?;
    // A question to a person would drown in the output of the build.
    if install::is_interactive() {
        prepare()?;
    }
    let prepared = thread::spawn(prepare);
    let build = with_clippy(cargo_test(&["--no-run".to_owned()])).run();
    first_failure([build, join(prepared)])?;
    let counts = thread::spawn(counts);
    let checks = thread::spawn(checks);
    let tests = tests();
    // The soak mostly waits: beside it is time for what else can wait until now.
    let published = thread::spawn(published);
    let soak = soak();
    first_failure([tests, soak].into_iter().chain([counts, checks, published].map(join)))
}

/// The lines of `.ci/settings`: a name and a value.
fn settings() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = include_str!("../../.ci/settings").lines();
    lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='))
}

/// A step that compiles as CI does.
fn with_settings(step: Step) -> Step {
    settings().fold(step, |step, (name, value)| step.env(name, value))
}

fn join(check: JoinHandle<Result<(), Failure>>) -> Result<(), Failure> {
    check.join().unwrap_or_else(|_| Err(Failure::message("a check panicked")))
}

/// The first failure; prints the others.
fn first_failure(results: impl IntoIterator<Item = Result<(), Failure>>) -> Result<(), Failure> {
    let mut failures = results.into_iter().filter_map(Result::err);
    let Some(first) = failures.next() else { return Ok(()) };
    failures.for_each(|Failure { message, .. }| eprintln!("xtask: {message}"));
    Err(first)
}

/// Checks the spelling, and installs what the machine lacks, one after the other: a package manager refuses to run twice.
fn prepare() -> Result<(), Failure> {
    checks::typos()?;
    redis::find_or_install()?;
    install::ensure(&install::VALGRIND)?;
    install::ensure_databases()?;
    install::ensure(&install::CHROMEDRIVER)
}

/// Runs the test programs, with databases and a browser, and the examples in the documentation. Each in a call of its own would
/// wait for the folder until the checks have been compiled.
fn tests() -> Result<(), Failure> {
    let tests = with_clippy(test_step(&["--no-fail-fast".to_owned()])?).with_tests();
    // Without clippy cargo would build them once more.
    let tests = tests.env("BUILT_EXAMPLES", cargo::build_folder().join("debug/examples"));
    tests.env("WITH_DATABASES", "yes").env("AXE_JS", install::axe()?).run()
}

/// Lets clippy compile the crates of the workspace. It is the compiler, with lints of its own: one build is checked and run, and
/// the dependencies are not compiled once more for clippy alone, which takes minutes. A warning is an error.
fn with_clippy(step: Step) -> Step {
    // This word separates arguments.
    let step = step.env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    let step = step.env("CLIPPY", clippy());
    step.env(
        "RUSTC_WORKSPACE_WRAPPER",
        Path::new(&cargo::workspace_root()).join("xtask/src/clippy.sh"),
    )
}

pub(crate) fn clippy() -> PathBuf {
    Path::new(&cargo::cargo()).with_file_name("clippy-driver")
}

/// A minute of faults at random, always the same, with pauses in which the checks beside it get on. Runs the program that the tests
/// were built with, as cargo would wait until the checks have been compiled.
fn soak() -> Result<(), Failure> {
    let program = cargo::build_folder().join("debug").join("soak");
    let step = Step::program(program, "soak").args(&["--seed", "1", "--for", "60s"]);
    let step = step.args(&["--pause", "25ms"]);
    step.env("REDIS_SERVER", redis::find_or_install()?).run()
}

/// Compares the counts of the benchmarks with those on record, at a higher priority than the checks: with the same one they
/// ended a minute after everything else, on one processor.
fn counts() -> Result<(), Failure> {
    let counts = counted(&cargo::build_folder())?.at_low_priority().with_output();
    counts.args(&["--counts", "--strict"]).run()
}

/// The benchmarks of this build of the tests.
fn counted(build: &Path) -> Result<Step, Failure> {
    let program = build.join("debug").join("lock-benches");
    Ok(Step::program(program, "lock-benches").env("REDIS_SERVER", redis::find_or_install()?))
}

/// Counts as CI does, the same program. It is built in a folder of its own: a developer's build has other settings.
///
/// # Errors
///
/// When something cannot be built or installed, or a count is not within its bounds.
pub(crate) fn counts_by_hand(args: &[String]) -> Result<(), Failure> {
    cargo::ensure_components(&["clippy"])?;
    checks::oldest_rust()?;
    install::ensure(&install::VALGRIND)?;
    let folder = cargo::build_folder().join("counts");
    let build = with_clippy(cargo_test(&["--no-run", "--test=peers"].map(str::to_owned)));
    with_settings(build).env("CARGO_TARGET_DIR", &folder).run()?;
    counted(&folder)?.args(args).run()
}

/// The dependencies, `xtask`, and each feature alone, at the lowest priority.
fn checks() -> Result<(), Failure> {
    // Its tests are a program of another kind; nothing else here has a program that no test needs.
    let xtask = Step::new("clippy").in_background().args(&["--package", "xtask"]);
    let xtask = xtask.args(&["--", "-D", "warnings"]).run();
    // Not every machine that runs this reaches the list of advisories; GitHub does.
    let deny = checks::deny(env::var_os("GITHUB_ACTIONS").is_some());
    first_failure([deny, xtask, checks::features(&["lock-runtime"], "1")])
}

/// The documentation with the public API, and the packed crates, at the lowest priority.
fn published() -> Result<(), Failure> {
    first_failure([checks::api(false), checks::pack()])
}
