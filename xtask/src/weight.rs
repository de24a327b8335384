//! What the locks cost a service that uses them: the same small one built with and without them, from nothing. And the size
//! of `lockctl`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Failure;
use crate::cargo::{Stopwatch, build_folder, command, workspace_root};

/// A service with axum, redis and tokio, and what is added for the locks.
const SERVICE: &str = include_str!("weight/service.rs.txt");

/// The crates of the service without locks.
const DEPENDENCIES: &str = "\
axum = { version = \"0.8\", default-features = false, features = [\"http1\", \"json\", \"matched-path\", \"tokio\"] }
redis = { version = \"1\", default-features = false, features = [\"connection-manager\", \"script\", \"tokio-comp\"] }
tokio = { version = \"1\", features = [\"macros\", \"net\", \"rt-multi-thread\"] }
";

/// A way to have the locks, and what its manifest says for it.
const VARIANTS: [(&str, Option<&str>); 3] = [
    ("without locks", None),
    ("with the defaults", Some("lock-runtime = { path = \"{root}/lock-runtime\" }")),
    (
        "with the smallest set",
        Some(
            "lock-runtime = { path = \"{root}/lock-runtime\", default-features = false, features = [\"macros\", \"redis\"] }",
        ),
    ),
];

/// Builds each, and prints a table in Markdown.
///
/// # Errors
///
/// When a project cannot be written or built.
pub(crate) fn run() -> Result<(), Failure> {
    let folder = build_folder().join("weight");
    println!(
        "| service | crates | dev build, processor time | dev program | release build, processor time | release program, stripped |"
    );
    println!("|---|---:|---:|---:|---:|---:|");
    for (name, dependency) in VARIANTS {
        let project = folder.join(name.replace(' ', "-"));
        write_project(&project, dependency).map_err(|error| {
            Failure::message(format!("cannot write to {}: {error}", project.display()))
        })?;
        let dev = build(&project, &[])?;
        let release = build(&project, &["--release"])?;
        println!(
            "| {name} | {} | {:.0} s | {} | {:.0} s | {} |",
            crates(&project)?,
            dev.processor.as_secs_f64(),
            megabytes(dev.bytes),
            release.processor.as_secs_f64(),
            megabytes(release.bytes),
        );
        eprintln!("{name}: dev {:.0?}, release {:.0?} of time", dev.took, release.took);
    }
    println!("| `lockctl` | | | | | {} |", megabytes(lockctl(&folder.join("lockctl"))?));
    Ok(())
}

/// Installs the command line as a user does, but stripped as the services, and returns its size.
fn lockctl(folder: &Path) -> Result<u64, Failure> {
    fs::create_dir_all(folder).map_err(|error| {
        Failure::message(format!("cannot write to {}: {error}", folder.display()))
    })?;
    let package = PathBuf::from(workspace_root()).join("lock-cli").display().to_string();
    let strip = "profile.release.strip=true";
    let place = ["--root", ".", "--path", &package, "--config", strip];
    cargo_on(folder, &[&["install", "--quiet", "--locked", "--force"], &place[..]].concat())?;
    size(&folder.join("bin/lockctl"))
}

fn size(program: &Path) -> Result<u64, Failure> {
    fs::metadata(program)
        .map(|program| program.len())
        .map_err(|error| Failure::message(format!("cannot read {}: {error}", program.display())))
}

fn write_project(project: &Path, dependency: Option<&str>) -> std::io::Result<()> {
    let root = PathBuf::from(workspace_root());
    // All is compiled, also by a second run.
    if project.exists() {
        fs::remove_dir_all(project)?;
    }
    fs::create_dir_all(project.join("src"))?;
    // The same versions as here.
    fs::copy(root.join("Cargo.lock"), project.join("Cargo.lock"))?;
    let mut manifest = String::from(
        "[package]\nname = \"service\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [profile.release]\nstrip = true\n\n[dependencies]\n",
    );
    manifest.push_str(DEPENDENCIES);
    if let Some(dependency) = dependency {
        let _ = writeln!(manifest, "{}", dependency.replace("{root}", &root.display().to_string()));
    }
    fs::write(project.join("Cargo.toml"), manifest)?;
    fs::write(project.join("src/main.rs"), service(dependency.is_some()))
}

/// The source, with the lines for locks or with those in their place.
fn service(locked: bool) -> String {
    let (other, own) = if locked { ("//without ", "//with ") } else { ("//with ", "//without ") };
    let lines = SERVICE.lines().filter(|line| !line.trim_start().starts_with(other));
    lines.map(|line| line.replacen(own, "", 1) + "\n").collect()
}

struct Build {
    took: Duration,
    /// The time of all processors.
    processor: Duration,
    /// The size of the program.
    bytes: u64,
}

/// Builds the project from nothing, as a new checkout of a user.
fn build(project: &Path, profile: &[&str]) -> Result<Build, Failure> {
    let (before, clock) = (children_time()?, Stopwatch::start());
    cargo_on(project, &[&["build", "--quiet"], profile].concat())?;
    let (took, processor) = (clock.elapsed(), children_time()?.saturating_sub(before));
    let folder = if profile.is_empty() { "debug" } else { "release" };
    let bytes = size(&project.join("target").join(folder).join("service"))?;
    Ok(Build { took, processor, bytes })
}

/// The crates that are compiled, the service's own left out.
fn crates(project: &Path) -> Result<usize, Failure> {
    let tree =
        cargo_on(project, &["tree", "--prefix", "none", "--edges", "normal,build", "--no-dedupe"])?;
    let mut crates: Vec<_> = tree.lines().filter_map(|line| line.split_once(' ')).collect();
    crates.sort_unstable();
    crates.dedup_by_key(|(name, rest)| (*name, rest.split(' ').next()));
    Ok(crates.len() - 1)
}

/// Runs cargo there with a user's settings, not those of this build, and returns what it prints.
fn cargo_on(project: &Path, args: &[&str]) -> Result<String, Failure> {
    let mut cargo = command(crate::cargo::cargo());
    cargo.args(args).current_dir(project).env("CARGO_TARGET_DIR", project.join("target"));
    for name in [
        "CARGO_INCREMENTAL",
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
    ] {
        cargo.env_remove(name);
    }
    let output = cargo.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| Failure::message(format!("cannot run cargo: {error}")))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            Err(Failure::message(format!("`cargo {}` failed: {}", args.join(" "), output.status)))
        }
    }
}

/// The processor time of all processes that this one has started and that have ended. Linux has it in a file, in ticks of
/// which `getconf` knows the length.
fn children_time() -> Result<Duration, Failure> {
    let stat = fs::read_to_string("/proc/self/stat").map_err(|error| {
        Failure::message(format!("cannot read the processor time, which needs Linux: {error}"))
    })?;
    let ticks = Command::new("getconf").arg("CLK_TCK").output().ok();
    let ticks =
        ticks.and_then(|output| String::from_utf8_lossy(&output.stdout).trim().parse().ok());
    let ticks: u64 = ticks.unwrap_or(100);
    // The fields behind the program's name, which is in brackets: the times of the children are the 14th and 15th of these.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let times =
        fields.split_whitespace().skip(13).take(2).filter_map(|ticks| ticks.parse::<u64>().ok());
    Ok(Duration::from_millis(times.sum::<u64>() * 1000 / ticks.max(1)))
}

fn megabytes(bytes: u64) -> String {
    #[allow(clippy::cast_precision_loss)] // To be read by a person.
    let megabytes = bytes as f64 / 1e6;
    format!("{megabytes:.1} MB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_is_the_same_but_for_its_locks() {
        let (with, without) = (service(true), service(false));
        assert!(
            with.contains("distributed_lock") && !without.contains("lock_runtime"),
            "{without}"
        );
        assert!(!with.contains("//with") && !without.contains("//with"), "{with}");
    }
}
