//! Project automation: `cargo xtask help`.

mod cargo;
mod checks;
mod ci;
mod counts;
mod fuzz;
mod install;
mod interop;
mod redis;

use std::env;
use std::process::ExitCode;

use cargo::Step;

const HELP: &str = include_str!("help.txt");

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let command = args.next().unwrap_or_else(|| "help".to_owned());
    let rest: Vec<String> = args.collect();
    let done = match (command.as_str(), &rest[..]) {
        ("test", _) => test(&rest),
        ("bench", _) => bench(&rest),
        ("fuzz", _) => fuzz::run(&rest),
        ("interop", _) => interop::run(&rest),
        ("console-test", _) => console_step(&rest).and_then(Step::run),
        ("models", _) => models(&rest),
        ("features", []) => checks::feature_pairs(),
        ("api", []) => checks::api(false),
        ("api", [flag]) if flag == "--accept" => checks::api(true),
        ("counts", []) => counts::run(),
        ("deny", []) => checks::deny(true),
        ("typos", []) => checks::typos(),
        ("msrv", []) => checks::msrv(),
        ("package", []) => checks::rehearse(),
        ("faults", []) => faults(),
        ("soak", _) => soak(&rest),
        ("mutants", _) => mutants(&rest),
        ("ci", []) => ci::run(),
        ("help" | "--help" | "-h", _) => {
            print!("{HELP}");
            Ok(())
        }
        _ => Err(Failure::message(format!(
            "there is no command `{command}` with such arguments\n\n{HELP}"
        ))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { message, code }) => {
            eprintln!("xtask: {message}");
            code
        }
    }
}

/// Why a command did not succeed, and what the shell gets to see of it.
#[derive(Debug)]
struct Failure {
    message: String,
    code: ExitCode,
}

impl Failure {
    fn message(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: ExitCode::FAILURE }
    }
}

fn test(args: &[String]) -> Result<(), Failure> {
    let mut tests = args.to_vec();
    tests.retain(|arg| arg != "--with-databases");
    test_step(&tests)?.run()?;
    if tests.len() == args.len() {
        return Ok(());
    }
    install::ensure_databases()?;
    databases_step()?.run()
}

/// Runs the tests of `tests/databases` that need a database.
fn databases_step() -> Result<Step, Failure> {
    // Of the whole workspace: with the features of one package alone its dependencies would be compiled once more.
    let args = ["--test=databases", "--", "--ignored"];
    test_step(&args.map(str::to_owned))
}

/// Runs the tests of the workspace, or of the packages that the arguments name.
fn test_step(args: &[String]) -> Result<Step, Failure> {
    let redis = redis::find_or_install()?;
    let runner = cargo::rustc_says("host")?.to_uppercase().replace('-', "_");
    let runner = format!("CARGO_TARGET_{runner}_RUNNER");
    // From the root of the workspace, where the step runs: cargo takes a space for the end of the program's name.
    let tests = cargo_test(args).env("REDIS_SERVER", redis).env(&runner, "xtask/src/run_test.sh");
    Ok(tests.env("RUST_TEST_THREADS", test_threads()))
}

/// The same without what only running them needs.
fn cargo_test(args: &[String]) -> Step {
    // A package named by the caller takes the place of the whole workspace.
    let own = args.split(|arg| arg == "--").next().unwrap_or_default();
    let names =
        |arg: &String| ["-p", "--package", "--workspace"].iter().any(|it| arg.starts_with(it));
    let scope = if own.iter().any(names) { &[][..] } else { &["--workspace"] };
    Step::new("test").args(scope).arg("--all-features").args(args)
}

/// Builds the processes of a soak and runs it, then the cycles if those are wanted.
fn soak(args: &[String]) -> Result<(), Failure> {
    let mut args = args.to_vec();
    let cycles = value_of(&mut args, "--cycles", "a number, as in `1000000`")?;
    let package = &["--package", "lock-tests", "--all-features"];
    let redis = redis::find_or_install()?;
    Step::new("build").args(package).arg("--bins").run()?;
    let step = Step::new("run").arg("--quiet").args(package).args(&["--bin", "soak", "--"]);
    step.args(&args).env("REDIS_SERVER", &redis).run()?;
    let Some(cycles) = cycles else { return Ok(()) };
    let step = Step::new("test").args(package).args(&["--test", "costs", "cycles", "--"]);
    step.arg("--nocapture").env("LOCK_CYCLES", cycles).env("REDIS_SERVER", redis).run()
}

/// Counts the mutants that some test notices.
fn mutants(args: &[String]) -> Result<(), Failure> {
    let step = Step::new("run").args(&["--quiet", "--package", "lock-mutants", "--"]).args(args);
    step.env("REDIS_SERVER", redis::find_or_install()?).run()
}

/// Removes an option from the arguments, and returns its value.
fn value_of(args: &mut Vec<String>, name: &str, form: &str) -> Result<Option<String>, Failure> {
    let Some(at) = args.iter().position(|arg| arg == name) else { return Ok(None) };
    let value = args.drain(at..args.len().min(at + 2)).nth(1);
    value.map(Some).ok_or_else(|| Failure::message(format!("`{name}` needs {form}")))
}

/// Writes the page of faults. The test that compares it does.
fn faults() -> Result<(), Failure> {
    let step = Step::new("test").args(&["--package", "lock-tests", "--all-features"]);
    let step = step.args(&["--test", "tidy", "--", "the_page_of_faults_is_current"]);
    step.env("UPDATE_SNAPSHOTS", "yes").run()
}

/// The tests of the console in headless Chromium. The features are those of `cargo xtask test`, so that nothing is built twice.
fn console_step(args: &[String]) -> Result<Step, Failure> {
    install::ensure(&install::CHROMEDRIVER)?;
    let test = &["--workspace", "--all-features", "--test=browser", "--", "--ignored"];
    let step = Step::new("test").args(test).args(args).env("AXE_JS", install::axe()?);
    Ok(step.env("REDIS_SERVER", redis::find_or_install()?))
}

/// Explores the models.
fn models(args: &[String]) -> Result<(), Failure> {
    let packages = &["--package", "lock-protocol-model", "--package", "lock-task-model"];
    Step::new("test").args(packages).args(&["--", "--nocapture"]).args(args).run()
}

/// How many tests of a program run at once: most of them wait for servers and leases, so more than there
/// are cores. `run_test.sh` doubles this for one program.
fn test_threads() -> String {
    env::var("RUST_TEST_THREADS").unwrap_or_else(|_| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        (cores * 5).to_string()
    })
}

fn bench(args: &[String]) -> Result<(), Failure> {
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    if has("--counts") {
        return ci::counts_by_hand(args);
    }
    let step = Step::new("run").args(&["--release", "--package", "lock-benches"]);
    let mut step = step.env("REDIS_SERVER", redis::find_or_install()?);
    if has("--instructions") {
        install::ensure(&install::VALGRIND)?;
        let folder = cargo::build_folder().join("instructions");
        step = step.env("CARGO_TARGET_DIR", folder).env("RUSTFLAGS", cargo::FOR_VALGRIND);
    }
    step.arg("--").args(args).run()
}
