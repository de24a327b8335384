//! Project automation: `cargo xtask help`.

mod cargo;
mod ci;
mod compile_time;
mod console;
mod counts;
mod deny;
mod fuzz;
mod install;
mod interop;
mod msrv;
mod mutants;
mod package;
mod redis;
mod tool;
mod typos;
mod weight;

use std::env;
use std::process::ExitCode;

use cargo::Step;

const HELP: &str = "\
cargo xtask <command>

  test [args]          finds or installs redis-server, then runs all tests of the workspace;
                       args go to `cargo test`: `cargo xtask test -p lock-tests some_name`;
                       with `--with-databases` it then installs PostgreSQL, pgbouncer and MariaDB where they are
                       missing, and runs the tests that need them
  bench [--quick] …    finds or installs redis-server, then runs the benchmarks;
                       args go to the benchmark program; `--counts` builds and counts as CI does, and
                       `--instructions` counts a release build: both find or install valgrind, too; `--peers`
                       compares with other libraries, as far as the tools of their languages are there
  interop [--redisson=VERSION] …
                       runs the tests beside the real Redisson; needs a JDK and Maven, which
                       fetches Redisson; args go to the test program
  console-test [args]  runs the tests of the console in headless Chromium; finds or installs the browser, and
                       fetches axe-core with npm
  fuzz [--for 60s] [TARGET …]
                       runs the fuzz targets, each for that long (10s), guided by coverage, and keeps inputs
                       that reach new code in the corpus; needs a C++ compiler
  models [args]        explores the model of the protocol, and the gate and the hand-over in every order of their
                       tasks, and prints how many states and orders those are; part of `test`
  features             checks every pair of features of each crate; installs cargo-hack below `target`
  api [--accept]       compares the public API of each crate with the one on record in `tests/api`, or
                       puts the present one on record
  counts               prints how large each crate is: lines, files, and what it makes public
  deny                 checks licences, sources and advisories of the dependencies by `deny.toml`; installs
                       cargo-deny below `target`
  typos                checks the spelling of all files by `typos.toml`; installs typos below `target`
  msrv                 compiles what is published with the oldest supported Rust, and says so if this toolchain
                       is another
  package              packs all crates from a clean checkout of the last commit, as for publishing, and compiles
                       the packed crates against each other
  faults               writes `docs/faults.md` from the heads of the tests in `tests/tests/faults`
  soak [--seed N] [--for 60s] [--pause 2ms] [--fuzz 60s] [--cycles 1000000]
                       processes use locks of every kind while faults are injected, in rounds of 15
                       seconds; the history of each round is judged. A seed repeats the faults. With
                       `--fuzz` each fuzz target then runs for that long; with `--cycles` a client
                       acquires and releases locks so often, and what it keeps is compared
  mutants [--sample N] [--in TEXT] [--seed S]
                       the mutation score: plants small changes in a copy of the sources, all at once, and runs the
                       tests that reach each, until one notices it; installs cargo-mutants below `target`. TEXT is
                       part of a path or of a change; `--in bugs` is the bugs that this library once had
  compile-time         measures what the attribute costs the compiler, with 200 functions
  weight               builds a small service from nothing, without locks, with them, and with the smallest set of them, and
                       prints what each costs: crates, processor time, sizes; takes ten minutes on two processors
  ci                   test (with databases), formatting, clippy, docs, public API, each feature alone, the console in a
                       browser, and the counts on record of what a pair costs: all that has to pass
  help                 prints this

redis-server (Redis 7.0 or later) is the program named by REDIS_SERVER, or the one on the PATH, or gets
installed by apt-get (with sudo for others than root, which asks first) or brew.
";

const TAKE_NOTHING: [&str; 11] = [
    "api",
    "ci",
    "compile-time",
    "counts",
    "deny",
    "faults",
    "features",
    "msrv",
    "package",
    "typos",
    "weight",
];

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let command = args.next().unwrap_or_else(|| "help".to_owned());
    let rest: Vec<String> = args.collect();
    let done = match (command.as_str(), &rest[..]) {
        ("test", _) => test(&rest),
        ("bench", _) => bench(&rest),
        ("fuzz", _) => fuzz::run(&rest),
        ("interop", _) => interop::run(&rest),
        ("console-test", _) => console::run(&rest),
        ("models", _) => models(&rest),
        ("compile-time", []) => compile_time::run(),
        ("weight", []) => weight::run(),
        ("features", []) => ci::features(2),
        ("api", []) => ci::api(false),
        ("api", [flag]) if flag == "--accept" => ci::api(true),
        ("counts", []) => counts::run(),
        ("deny", []) => deny::run(),
        ("typos", []) => typos::run(),
        ("msrv", []) => msrv::run(),
        ("package", []) => package::run(),
        ("faults", []) => faults(),
        ("soak", _) => soak(&rest),
        ("mutants", _) => mutants::run(&rest),
        ("ci", []) => ci::run(),
        ("help" | "--help" | "-h", _) => {
            print!("{HELP}");
            Ok(())
        }
        (command, [arg, ..]) if TAKE_NOTHING.contains(&command) => {
            Err(Failure::message(format!("`{command}` takes no `{arg}`\n\n{HELP}")))
        }
        _ => Err(Failure::message(format!("there is no command `{command}`\n\n{HELP}"))),
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
    // Of the whole workspace: with the features of one package alone its dependencies would be compiled once more. What a fence
    // costs is a measurement.
    let args = ["--test=databases", "--", "--ignored", "--skip=cost::"];
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
    let names_package = args
        .iter()
        .take_while(|arg| *arg != "--")
        .any(|arg| arg.starts_with("-p") || arg.starts_with("--package") || arg == "--workspace");
    let scope = if names_package { &[][..] } else { &["--workspace"] };
    Step::new("test").args(scope).arg("--all-features").args(args)
}

/// Builds the processes of a soak and runs it, then the fuzz targets and the cycles if those are wanted.
fn soak(args: &[String]) -> Result<(), Failure> {
    let mut args = args.to_vec();
    let fuzz = value_of(&mut args, "--fuzz", "a time, as in `60s`")?;
    let cycles = value_of(&mut args, "--cycles", "a number, as in `1000000`")?;
    let package = &["--package", "lock-tests", "--all-features"];
    let redis = redis::find_or_install()?;
    Step::new("build").args(package).arg("--bins").run()?;
    let step = Step::new("run").arg("--quiet").args(package).args(&["--bin", "soak", "--"]);
    step.args(&args).env("REDIS_SERVER", &redis).run()?;
    if let Some(time) = fuzz {
        fuzz::run(&["--for".to_owned(), time])?;
    }
    let Some(cycles) = cycles else { return Ok(()) };
    let step = Step::new("test").args(package).args(&["--test", "costs", "cycles", "--"]);
    step.arg("--nocapture").env("LOCK_CYCLES", cycles).env("REDIS_SERVER", redis).run()
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
    match (has("--counts"), has("--instructions")) {
        (true, true) => {
            let message = "`--counts` and `--instructions` count two programs; give one of them";
            return Err(Failure::message(message));
        }
        (true, false) => return ci::counts_by_hand(args),
        (false, _) => {}
    }
    let step = Step::new("run").args(&["--release", "--package", "lock-benches"]);
    let step = step.env("REDIS_SERVER", redis::find_or_install()?);
    if !has("--instructions") {
        return step.arg("--").args(args).run();
    }
    install::ensure_valgrind()?;
    let step = step.env("CARGO_TARGET_DIR", cargo::build_folder().join("instructions"));
    step.env("RUSTFLAGS", cargo::FOR_VALGRIND).arg("--").args(args).run()
}
