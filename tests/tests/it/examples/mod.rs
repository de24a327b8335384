//! Every program of `examples/`, as a reader runs it: what it prints, and that it ends by itself or when asked to.

mod front;
mod kinds;
mod servers;
mod services;

use std::process::ExitStatus;

use lock_tests::{Worker, eventually};
use rustix::process::{Pid, Signal, kill_process};

use crate::prelude::*;
use crate::support::examples::example;

/// More than any of them takes on a busy machine.
const BOUND: Duration = secs(60);

/// What the examples read from the environment, and a developer may have set.
const VARIABLES: [&str; 7] =
    ["CLUSTER", "CONFIG", "DATABASE", "MASTER", "PORT", "REDIS_URL", "SENTINELS"];

/// Starts an example with these variables, and none of a developer's own.
fn start(name: &str, envs: &[(&str, &str)]) -> Worker {
    let program = example(name);
    let mut args: Vec<String> =
        VARIABLES.iter().flat_map(|name| ["-u".to_owned(), (*name).to_owned()]).collect();
    // `env` removes what it inherits, so it gets what is to stay as words of its own.
    args.extend(envs.iter().map(|(name, value)| format!("{name}={value}")));
    args.push(program.to_str().unwrap().to_owned());
    Worker::spawn("env", &args.iter().map(String::as_str).collect::<Vec<_>>(), &[])
}

/// Runs an example to its end, and returns the lines that it prints.
async fn run(name: &str, envs: &[(&str, &str)]) -> Vec<String> {
    let mut program = start(name, envs);
    let mut lines = Vec::new();
    while let Some(line) = program.try_next_line(BOUND).await {
        lines.push(line);
    }
    assert!(program.wait(BOUND).await.success(), "{name} failed after {lines:#?}");
    lines
}

/// Runs an example in memory, and again on a Redis, which then must not have a lock any more. `check` sees the lines.
async fn run_both(name: &str, check: impl Fn(&[String])) {
    check(&run(name, &[]).await);
    let server = RedisServer::start().await;
    check(&run(name, &[("REDIS_URL", &server.url())]).await);
    let raw = server.client();
    let commands: String = raw.get(&["INFO", "commandstats"]).await;
    assert!(commands.contains("cmdstat_evalsha"), "{name} has not used the server: {commands}");
    // A job keeps its lock for `at_least`, 2 s. A lock that is not released has a lease of 30 s.
    soon!("no lock is left", locks(&server).await.is_empty());
}

/// A test of the example of that name, in memory and on a Redis.
macro_rules! both {
    ($name:ident, |$lines:ident| $check:block) => {
        #[tokio::test]
        async fn $name() {
            run_both(stringify!($name), |$lines: &[String]| $check).await;
        }
    };
}
use both;

/// The names that are locked. What a lock leaves behind on purpose are strings: counters, notes, the permits of a semaphore.
async fn locks(server: &RedisServer) -> Vec<String> {
    let (raw, mut locks) = (server.client(), Vec::new());
    for key in raw.keys().await {
        let kind: String = raw.get(&["TYPE", &key]).await;
        // It may have ended meanwhile.
        if kind != "string" && kind != "none" {
            locks.push(key);
        }
    }
    locks
}

/// Asks an example to end, and returns how it did.
async fn end(program: &mut Worker, signal: Signal) -> ExitStatus {
    let id = Pid::from_raw(program.id().try_into().unwrap()).unwrap();
    kill_process(id, signal).unwrap();
    program.wait(BOUND).await
}

/// The only line that begins so, without its beginning.
fn line<'a>(lines: &'a [String], beginning: &str) -> &'a str {
    let found: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix(beginning)).collect();
    let [line] = found[..] else { panic!("not one line begins with `{beginning}`: {lines:#?}") };
    line
}

/// The numbers in a line, in order.
fn numbers(line: &str) -> Vec<u64> {
    let words = line.split(|c: char| !c.is_ascii_digit());
    words.filter_map(|word| word.parse().ok()).collect()
}

/// An example without a test, an entry in the manifest or a row in the README fails here.
#[test]
fn every_example_has_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |file: &Path| fs::read_to_string(file).unwrap();
    let tests = fs::read_dir(root.join("tests/it/examples")).unwrap();
    let tests: String = tests.map(|file| read(&file.unwrap().path())).collect();
    let examples = root.join("../examples");
    let page = read(&examples.join("README.md"));
    let mut found = 0;
    for entry in fs::read_dir(&examples).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        // A file, a folder of modules, or a package of its own.
        let own = path.join(format!("{name}.rs"));
        let (program, manifest) = match path.extension().is_some_and(|extension| extension == "rs")
        {
            true => (Some(path.clone()), examples.join("Cargo.toml")),
            false if own.exists() => (Some(own), path.join("Cargo.toml")),
            false if path.join("main.rs").exists() => (None, examples.join("Cargo.toml")),
            false => continue,
        };
        found += 1;
        let is_run =
            ["run(\"", "start(\"", "both!("].map(|run| tests.contains(&format!("{run}{name}")));
        assert!(is_run.contains(&true), "no test of tests/it/examples runs the example {name}");
        let is_entry = read(&manifest).contains(&format!("name = \"{name}\""));
        assert!(is_entry, "{name} is not in {}", manifest.display());
        assert!(page.contains(&format!("| [{name}]")), "{name} is not in the table of README.md");
        let lines = program.map_or(0, |program| read(&program).lines().count());
        assert!(lines <= 120, "{name} has {lines} lines; an example is to have at most 120");
    }
    assert!(found >= 14, "only {found} examples are found");
}
