//! What `#[distributed_lock]` costs the compiler: a crate of annotated functions beside one with the
//! same functions without the attribute.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Failure;
use crate::cargo::{Stopwatch, build_folder, cargo, workspace_root};

/// Functions in each crate.
const FUNCTIONS: usize = 200;

/// How often each crate is compiled; the order turns round each time.
const ROUNDS: usize = 3;

/// What all the attributes together may add, on two processors.
const TARGET: Duration = Duration::from_secs(3);

const CRATES: [&str; 2] = ["plain", "annotated"];

/// Prepares the crates, compiles what they depend on, then measures them and prints the result.
///
/// # Errors
///
/// When a crate cannot be written or compiled.
pub(crate) fn run() -> Result<(), Failure> {
    let folder = build_folder().join("compile-time");
    write_crates(&folder).map_err(|error| {
        Failure::message(format!("cannot write to {}: {error}", folder.display()))
    })?;
    println!("{FUNCTIONS} functions, {ROUNDS} rounds; medians, of the difference too");
    for subcommand in ["check", "build"] {
        cargo_on(&folder, subcommand, "--workspace")?;
        let mut times = [const { Vec::new() }; CRATES.len()];
        for round in 0..ROUNDS {
            let mut turns = [0, 1];
            turns.rotate_left(round % 2);
            for at in turns {
                touch(&folder, CRATES[at])?;
                let package = format!("--package={}", CRATES[at]);
                times[at].push(cargo_on(&folder, subcommand, &package)?.as_secs_f64());
            }
        }
        let [plain, annotated] = &times;
        let more: Vec<_> =
            annotated.iter().zip(plain).map(|(with, without)| with - without).collect();
        let more = median(&more);
        let verdict = if more < TARGET.as_secs_f64() { "ok" } else { "miss" };
        println!(
            "  {subcommand:<6} plain {:.2} s, annotated {:.2} s: {more:.2} s more (target < {TARGET:?}: {verdict})",
            median(plain),
            median(annotated),
        );
    }
    Ok(())
}

/// Runs cargo there, and says for how long.
fn cargo_on(folder: &Path, subcommand: &str, what: &str) -> Result<Duration, Failure> {
    let mut command = Command::new(cargo());
    command.args([subcommand, "--quiet", what]).current_dir(folder);
    command.env("CARGO_TARGET_DIR", folder.join("target")).env("CARGO_INCREMENTAL", "0");
    // What this process was built with is not for them.
    command.env_remove("RUSTFLAGS").stdout(Stdio::null());
    let clock = Stopwatch::start();
    let status = command.status();
    let took = clock.elapsed();
    match status {
        Ok(status) if status.success() => Ok(took),
        Ok(status) => {
            Err(Failure::message(format!("`cargo {subcommand} {what}` failed: {status}")))
        }
        Err(error) => Err(Failure::message(format!("cannot run cargo: {error}"))),
    }
}

/// Makes cargo compile that crate again.
fn touch(folder: &Path, name: &str) -> Result<(), Failure> {
    let file = folder.join(name).join("src/lib.rs");
    let again = fs::read(&file).and_then(|text| fs::write(&file, text));
    again.map_err(|error| Failure::message(format!("cannot write {}: {error}", file.display())))
}

fn write_crates(folder: &Path) -> std::io::Result<()> {
    let root = PathBuf::from(workspace_root());
    fs::create_dir_all(folder)?;
    let members = format!("[workspace]\nresolver = \"3\"\nmembers = {CRATES:?}\n");
    fs::write(folder.join("Cargo.toml"), members)?;
    // The same versions, and no need to ask a registry.
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    for name in CRATES {
        let source = folder.join(name).join("src");
        fs::create_dir_all(&source)?;
        fs::write(folder.join(name).join("Cargo.toml"), manifest(name, &root))?;
        fs::write(source.join("lib.rs"), functions(name == "annotated"))?;
    }
    Ok(())
}

fn manifest(name: &str, root: &Path) -> String {
    let runtime = root.join("lock-runtime").display().to_string();
    format!(
        "[package]\nname = {name:?}\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [dependencies]\nlock-runtime = {{ path = {runtime:?} }}\n"
    )
}

/// The source of a crate. `all` makes objects of the futures, so that each is compiled to the end
/// here, and checked to be `Send`, as by a program that spawns it.
fn functions(annotated: bool) -> String {
    let mut source = String::from(
        "use std::future::{Future, ready};\nuse std::pin::Pin;\n\
         use lock_runtime::LockError;\n\n\
         async fn step(number: u64) -> Result<u64, LockError> {\n    Ok(ready(number).await)\n}\n\n",
    );
    let mut all = String::new();
    for number in 0..FUNCTIONS {
        if annotated {
            let key = format!("order:{{id}}:{number}:{{name}}");
            let _ =
                writeln!(source, "#[lock_runtime::distributed_lock(key = {key:?}, wait = \"2s\")]");
        }
        let _ = writeln!(
            source,
            "pub async fn job_{number}(id: u64, name: &str) -> Result<u64, LockError> {{\n    \
             let first = step(id + {number}).await?;\n    \
             let second = step(first * 2).await?;\n    \
             Ok(second + name.len() as u64)\n}}\n"
        );
        let _ = writeln!(all, "        Box::pin(job_{number}(id, \"name\")),");
    }
    let _ = writeln!(
        source,
        "pub type Job = Pin<Box<dyn Future<Output = Result<u64, LockError>> + Send>>;\n\n\
         pub fn all(id: u64) -> Vec<Job> {{\n    vec![\n{all}    ]\n}}"
    );
    source
}

/// The middle one, of an odd number.
fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
