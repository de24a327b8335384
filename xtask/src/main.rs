//! Project automation: `cargo xtask help`.

mod cargo;
mod compile_time;
mod install;
mod interop;
mod redis;

use std::env;
use std::process::ExitCode;

use cargo::Step;

const HELP: &str = "\
cargo xtask <command>

  test [args]          finds or installs redis-server, then runs all tests of the workspace;
                       args go to `cargo test`: `cargo xtask test -p lock-tests some_name`
  bench [--quick] …    finds or installs redis-server, then runs the benchmarks;
                       args go to the benchmark program
  interop [--redisson=VERSION] …
                       runs the tests beside the real Redisson; needs a JDK and Maven, which
                       fetches Redisson; args go to the test program
  features             checks every pair of features of each crate; needs `cargo install cargo-hack`
  compile-time         measures what the attribute costs the compiler, with 200 functions
  ci                   test, then formatting, clippy, docs, and what attribute and layers cost:
                       all that has to pass
  help                 prints this

redis-server (Redis 7.0 or later) is the program named by REDIS_SERVER, or the one on the PATH, or gets
installed by apt-get (with sudo for others than root, which asks first) or brew.
";

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let command = args.next().unwrap_or_else(|| "help".to_owned());
    let rest: Vec<String> = args.collect();
    let done = match (command.as_str(), &rest[..]) {
        ("test", _) => test(&rest),
        ("bench", _) => bench(&rest),
        ("interop", _) => interop::run(&rest),
        ("compile-time", []) => compile_time::run(),
        ("features", []) => features(),
        ("ci", []) => ci(),
        ("help" | "--help" | "-h", _) => {
            print!("{HELP}");
            Ok(())
        }
        ("ci" | "compile-time" | "features", [arg, ..]) => {
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
    let redis = redis::find_or_install()?;
    // A package named by the caller takes the place of the whole workspace.
    let names_package = args
        .iter()
        .take_while(|arg| *arg != "--")
        .any(|arg| arg.starts_with("-p") || arg.starts_with("--package") || arg == "--workspace");
    let scope = if names_package { &[][..] } else { &["--workspace"] };
    let step = Step::new("test").args(scope).arg("--all-features").args(args);
    step.env("REDIS_SERVER", redis).env("RUST_TEST_THREADS", test_threads()).run()
}

/// How many tests of a program run at once: most of them wait for servers and leases, so more than there
/// are cores.
fn test_threads() -> String {
    env::var("RUST_TEST_THREADS").unwrap_or_else(|_| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        (cores * 5).to_string()
    })
}

fn bench(args: &[String]) -> Result<(), Failure> {
    let redis = redis::find_or_install()?;
    let step = Step::new("run").args(&["--release", "--package", "lock-benches", "--"]).args(args);
    step.env("REDIS_SERVER", redis).run()
}

/// Compiles every pair of features of each crate, with cargo-hack.
///
/// Not part of `ci`: each feature alone takes a minute of processor time beside compiled dependencies, pairs several,
/// and a new machine has to compile cargo-hack first.
fn features() -> Result<(), Failure> {
    let crates = ["lock-runtime", "lock-tower", "lock-macros", "lock-syntax"];
    let packages = crates.iter().flat_map(|name| ["--package", name]).collect::<Vec<_>>();
    Step::new("hack")
        .arg("check")
        .args(&packages)
        .args(&["--feature-powerset", "--depth", "2"])
        .run()
}

/// Builds the tests, runs them with the other checks beside them, and then what must not be disturbed.
fn ci() -> Result<(), Failure> {
    cargo::ensure_components(&["rustfmt", "clippy"])?;
    Step::new("fmt").args(&["--all", "--check"]).run()?;
    test(&["--no-run".to_owned()])?;
    // Tests mostly wait. What compiles beside them gets the processor time that they leave, and has a target
    // folder of its own, because cargo locks the folder while it builds.
    let checks = std::thread::spawn(checks);
    let tests = test(&["--no-fail-fast".to_owned()]);
    let checks = checks.join().map_err(|_| Failure::message("a check panicked"))?;
    if let (Err(_), Err(Failure { message, .. })) = (&tests, &checks) {
        eprintln!("xtask: {message}");
    }
    tests.and(checks)?;
    // Their bounds hold on a busy machine as well: they compare within a process, without a server.
    let costs = ["--quick", "--strict", "--only", "attribute", "--only", "layer", "--only", "load"];
    in_process_costs("run").arg("--").args(&costs).run()
}

/// Clippy, the documentation, and the build of the benchmarks, at the lowest priority.
fn checks() -> Result<(), Failure> {
    let check = |subcommand: &str| Step::new(subcommand).in_background();
    let deny = &["--", "-D", "warnings"];
    let everything = &["--workspace", "--all-targets", "--all-features"];
    check("clippy").args(everything).args(deny).run()?;
    for package in ["lock-runtime", "lock-tower", "lock-macros", "lock-benches"] {
        let bare = &["--package", package, "--no-default-features"];
        check("clippy").args(bare).args(deny).run()?;
    }
    let docs = check("doc").args(&["--workspace", "--no-deps", "--all-features"]);
    docs.env("RUSTDOCFLAGS", "-D warnings").run()?;
    in_process_costs("build").in_background().run()
}

/// The benchmarks without a server, which are built from half as many crates.
fn in_process_costs(subcommand: &str) -> Step {
    let package = &["--release", "--package", "lock-benches", "--no-default-features"];
    Step::new(subcommand).args(package).env("CARGO_TARGET_DIR", cargo::checks_folder())
}
