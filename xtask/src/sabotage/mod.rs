//! Plants bugs, each of which a named test has to catch.
//!
//! The bugs are planted in a copy of the sources, all at once, and an environment variable switches one of them on: so the
//! tests are built once for all bugs, and the sources themselves have no room kept for bugs.

mod bugs;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, io, thread};

use self::bugs::{BUGS, Bug, Check};
use crate::cargo::{self, Stopwatch};
use crate::{Failure, redis, test_threads};

/// Names the bug that is switched on.
const VARIABLE: &str = "LOCK_SABOTAGE";

/// Tells the code whether a bug is switched on.
const SWITCH: &str = r##"//! Switches planted bugs on.

static ACTIVE: std::sync::LazyLock<Option<String>> = std::sync::LazyLock::new(|| std::env::var("LOCK_SABOTAGE").ok());

/// True if the bug of that name is switched on.
pub fn is_on(name: &str) -> bool {
    ACTIVE.as_deref() == Some(name)
}

/// The script with the bug that is switched on.
pub fn in_script(source: String) -> String {
    match &*ACTIVE {
        Some(name) => source.replace(&format!("--[[{name}]]false"), "true"),
        None => source,
    }
}
"##;

/// Changes of the copy without which no bug can be switched on: file, text, and what takes its place.
const WIRING: [(&str, &str, &str); 3] = [
    (
        "lock-runtime/src/lib.rs",
        "\npub mod store;",
        "\n/// Planted bugs.\n#[doc(hidden)]\npub mod sabotage;\npub mod store;",
    ),
    (
        "lock-runtime/src/store/redis/scripts/mod.rs",
        "        let source = [\"local call = redis.call\\n\", &source].concat();",
        "        let source = crate::sabotage::in_script([\"local call = redis.call\\n\", &source].concat());",
    ),
    (
        "models/tasks/src/lib.rs",
        "\npub mod scenarios;",
        "\n#[path = \"../../../lock-runtime/src/sabotage.rs\"]\nmod sabotage;\npub mod scenarios;",
    ),
];

/// The packages whose tests catch bugs.
const PACKAGES: [&str; 2] = ["lock-tests", "lock-task-model"];

/// How long a test with a bug may take. A test that never ends has caught nothing.
const BOUND: Duration = Duration::from_secs(300);

/// How often to look whether a test has ended.
const PAUSE: Duration = Duration::from_millis(50);

/// How a test ended.
#[derive(Debug, PartialEq)]
enum End {
    Passed,
    Failed { output: String },
    Hung,
}

/// Runs the check of each bug whose name has `only` in it.
///
/// # Errors
///
/// When a check fails without a bug, or passes with it; after all have run.
pub(crate) fn run(only: &str) -> Result<(), Failure> {
    let redis = redis::find_or_install()?;
    let chosen: Vec<&Bug> = BUGS.iter().filter(|bug| bug.name.contains(only)).collect();
    if chosen.is_empty() {
        return Err(Failure::message(format!("no bug has `{only}` in its name")));
    }
    let folder = cargo::build_folder().join("sabotage");
    let tree = folder.join("tree");
    let cannot = |error| Failure::message(format!("cannot write to {}: {error}", folder.display()));
    plant(&tree).map_err(cannot)?;
    let checks = Checks::build(tree, &folder.join("build"), redis, &chosen)?;
    let outputs = folder.join("outputs");
    fs::create_dir_all(&outputs).map_err(cannot)?;
    let sound: BTreeSet<_> =
        tests_of(&chosen).into_iter().filter(|test| checks.is_sound(*test)).collect();
    let (mut caught, clock) = (0, Stopwatch::start());
    for bug in &chosen {
        let mut failed = 0;
        for Check { test, says } in bug.checks {
            if !sound.contains(test) {
                println!("FAILS WITHOUT A BUG, TOO: {} ({} {})", bug.name, test.0, test.1);
                continue;
            }
            let end = checks.run(*test, Some(bug.name));
            if let End::Failed { output } = &end {
                let name = format!("{}--{}", bug.name.replace(' ', "-"), test.1);
                fs::write(outputs.join(name), output).map_err(cannot)?;
            }
            let verdict = verdict(&end, says);
            failed += usize::from(verdict == CAUGHT);
            println!("{verdict}: {} ({} {})", bug.name, test.0, test.1);
        }
        caught += usize::from(failed == bug.checks.len());
    }
    println!("sabotage: caught {caught}/{} in {:.0?}", chosen.len(), clock.elapsed());
    match caught == chosen.len() {
        true => Ok(()),
        false => Err(Failure::message("a planted bug was not caught")),
    }
}

/// The tests that these bugs have to fail, each once.
fn tests_of(bugs: &[&Bug]) -> BTreeSet<(&'static str, &'static str)> {
    bugs.iter().flat_map(|bug| bug.checks).map(|check| check.test).collect()
}

const CAUGHT: &str = "caught";

/// What the end of a test says about the bug that it ran with.
fn verdict(end: &End, says: &str) -> &'static str {
    match end {
        End::Failed { output } if says.split(" | ").any(|words| output.contains(words)) => CAUGHT,
        End::Failed { .. } => "FAILED WITHOUT THE WORDS EXPECTED",
        End::Passed => "NOT CAUGHT",
        End::Hung => "HUNG",
    }
}

/// Copies all sources to `tree` and plants the bugs. Leaves files alone that are as they should be, so that cargo builds
/// only what has changed.
fn plant(tree: &Path) -> io::Result<()> {
    let root = PathBuf::from(cargo::workspace_root());
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(&root)
        .output()?;
    if !listed.status.success() {
        return Err(io::Error::other("`git ls-files` failed"));
    }
    let mut kept = BTreeSet::new();
    for name in String::from_utf8_lossy(&listed.stdout).split_terminator('\0') {
        let Ok(mut text) = fs::read(root.join(name)) else { continue };
        if let Ok(source) = str::from_utf8(&text) {
            text = planted(name, source).map_err(io::Error::other)?.into_bytes();
        }
        write(&tree.join(name), &text)?;
        kept.insert(tree.join(name));
    }
    let switch = tree.join("lock-runtime/src/sabotage.rs");
    write(&switch, SWITCH.as_bytes())?;
    kept.insert(switch);
    remove_others(tree, &kept)
}

fn write(file: &Path, text: &[u8]) -> io::Result<()> {
    if fs::read(file).is_ok_and(|present| present == text) {
        return Ok(());
    }
    fs::create_dir_all(file.parent().unwrap_or(file))?;
    fs::write(file, text)
}

/// Removes files that the sources no longer have.
fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// The text of a file with all bugs that belong there.
///
/// # Errors
///
/// When a text is not there exactly once: the sources have changed, and the bug has to follow.
fn planted(file: &str, source: &str) -> Result<String, String> {
    let mut text = source.to_owned();
    for (_, find, plant) in WIRING.iter().filter(|(its, ..)| *its == file) {
        text = replaced(&text, find, plant).map_err(|why| format!("the wiring: {why}"))?;
    }
    for bug in BUGS.iter().filter(|bug| bug.file == file) {
        let switch = match (file.ends_with(".lua"), file.starts_with("lock-runtime/")) {
            (true, _) => format!("--[[{}]]false", bug.name),
            (false, true) => format!("crate::sabotage::is_on({:?})", bug.name),
            (false, false) => format!("lock_runtime::sabotage::is_on({:?})", bug.name),
        };
        text = replaced(&text, bug.find, &bug.plant.replace("PLANTED", &switch))
            .map_err(|why| format!("the bug `{}`: {why}", bug.name))?;
    }
    Ok(text)
}

fn replaced(text: &str, find: &str, plant: &str) -> Result<String, String> {
    match text.matches(find).count() {
        1 => Ok(text.replace(find, plant)),
        times => Err(format!("its place has `{find}` {times} times, not once")),
    }
}

/// The test programs, built.
struct Checks {
    programs: BTreeMap<String, PathBuf>,
    tree: PathBuf,
    redis: PathBuf,
}

impl Checks {
    /// Builds the test programs of these bugs.
    fn build(tree: PathBuf, to: &Path, redis: PathBuf, bugs: &[&Bug]) -> Result<Self, Failure> {
        let names: BTreeSet<_> = tests_of(bugs).into_iter().map(|(program, _)| program).collect();
        let mut cargo = cargo::command(cargo::cargo());
        cargo.args(["test", "--all-features", "--no-run"]);
        cargo.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
        cargo.args(names.iter().flat_map(|name| ["--test", name]));
        cargo.current_dir(&tree).env("CARGO_TARGET_DIR", to);
        eprintln!("==> building the tests with {} bugs", bugs.len());
        let cannot = |error| Failure::message(format!("cannot run cargo: {error}"));
        let built = cargo.output().map_err(cannot)?;
        let said = String::from_utf8_lossy(&built.stderr);
        let program = |line: &str| {
            let rest = line.trim().strip_prefix("Executable tests/")?;
            let (source, path) = rest.split_once(".rs (")?;
            let name = source.strip_suffix("/main").unwrap_or(source);
            Some((name.to_owned(), PathBuf::from(path.strip_suffix(')')?)))
        };
        let programs: BTreeMap<_, _> = said.lines().filter_map(program).collect();
        if !built.status.success() || programs.len() != names.len() {
            return Err(Failure::message(format!("the tests were not built:\n{said}")));
        }
        Ok(Self { programs, tree, redis })
    }

    /// True if the test passes without a bug: if need be when it runs again, since a busy machine may be late once.
    fn is_sound(&self, test: (&str, &str)) -> bool {
        let failed = || match self.run(test, None) {
            End::Failed { output } => Some(output),
            End::Passed => None,
            End::Hung => Some("it never ends".to_owned()),
        };
        let Some(output) = failed().and_then(|_| failed()) else { return true };
        eprintln!("`{}` of `{}` fails without a bug:\n{output}", test.1, test.0);
        false
    }

    /// Runs one check, with a bug or without. It is a child of this process, which can end it.
    fn run(&self, (program, test): (&str, &str), bug: Option<&str>) -> End {
        let Some(program) = self.programs.get(program) else {
            return End::Failed { output: format!("there is no test program `{program}`") };
        };
        let mut command = cargo::command(program);
        command.args(["--exact", test]).current_dir(self.tree.join("tests"));
        command.env("REDIS_SERVER", &self.redis).env("RUST_TEST_THREADS", test_threads());
        command.env("RUST_BACKTRACE", "0").env_remove(VARIABLE);
        command.envs(bug.map(|name| (VARIABLE, name)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        ended(command).unwrap_or_else(|error| End::Failed { output: error.to_string() })
    }
}

fn ended(mut command: Command) -> io::Result<End> {
    let clock = Stopwatch::start();
    let mut child = command.spawn()?;
    let readers = [
        child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn io::Read + Send>),
        child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn io::Read + Send>),
    ];
    // Read all the while: a child that fills a pipe waits for its reader.
    let readers = readers.into_iter().flatten().map(|mut pipe| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = pipe.read_to_end(&mut bytes);
            bytes
        })
    });
    let readers: Vec<_> = readers.collect();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if clock.elapsed() > BOUND {
            child.kill()?;
            child.wait()?;
            return Ok(End::Hung);
        }
        thread::sleep(PAUSE);
    };
    let output: Vec<u8> =
        readers.into_iter().flat_map(|reader| reader.join().unwrap_or_default()).collect();
    let output = String::from_utf8_lossy(&output).into_owned();
    // A name that no test has any more must not look like a success.
    let ran = !output.contains("running 0 tests");
    Ok(match status.success() && ran {
        true => End::Passed,
        false => End::Failed { output },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bug_has_its_place() {
        let root = PathBuf::from(cargo::workspace_root());
        let files: BTreeSet<_> =
            BUGS.iter().map(|bug| bug.file).chain(WIRING.map(|(file, ..)| file)).collect();
        for file in files {
            let source = fs::read_to_string(root.join(file)).expect("the file of a bug exists");
            if let Err(why) = planted(file, &source) {
                panic!("{file}: {why}");
            }
        }
        let names: BTreeSet<_> = BUGS.iter().map(|bug| bug.name).collect();
        assert_eq!(names.len(), BUGS.len(), "two bugs have one name");
    }

    #[test]
    fn the_safety_page_has_every_bug() {
        let page = PathBuf::from(cargo::workspace_root()).join("docs/safety.md");
        let page = fs::read_to_string(page).expect("the page exists");
        for bug in BUGS {
            assert!(page.contains(&format!("*{}*", bug.name)), "without `{}`", bug.name);
        }
    }

    #[test]
    fn a_bug_without_its_place_is_refused() {
        assert!(replaced("a b a", "a", "c").is_err());
        assert!(replaced("b", "a", "c").is_err());
        assert_eq!(replaced("b a", "a", "c"), Ok("b c".to_owned()));
    }
}
