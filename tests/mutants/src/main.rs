//! The mutation score: how many small changes of the product some test notices.
//!
//! All mutants are planted in one copy of the sources, each behind a switch, and an environment variable turns one of them on:
//! so the tests are built once for all (`cargo-mutants` builds them for each), and the sources themselves have no room kept for
//! mutants. Each test runs once without a mutant and records which it reaches; a mutant then runs only tests that reach it.

mod lua;
mod plant;
mod rust;
mod suite;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::time::Duration;
use std::{env, thread};

use self::plant::{BUGS, FOLDERS, Mutant, Planted};
use self::suite::{End, Suite, locked, parallel};

/// What is built: the test programs, and the packages that they belong to.
const BUILT: &str = "--package lock-runtime --package lock-tower --package lock-task-model --package lock-tests \
    --lib --test blocking --test cancel --test faults --test hostile --test installed_client --test it --test orders \
    --test policy --test skip_without_client";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mutants: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the score of the mutants, or of a sample, and each that no test has noticed.
///
/// # Errors
///
/// When the tests cannot be built, or none of them notices a bug that this library once had.
fn run() -> io::Result<()> {
    let (mut within, mut sample, mut seed) = (String::new(), usize::MAX, None);
    let mut args = env::args().skip(1);
    while let Some(arg) = args.next() {
        let value =
            args.next().ok_or_else(|| io::Error::other(format!("`{arg}` needs a value")))?;
        match &*arg {
            "--in" => within = value,
            "--sample" => sample = value.parse().map_err(io::Error::other)?,
            "--seed" => seed = Some(value),
            _ => return Err(io::Error::other(format!("there is no option `{arg}`"))),
        }
    }
    let seed = seed.unwrap_or_else(|| (RandomState::new().hash_one(0) % 10_000).to_string());
    let clock = Stopwatch::start();
    let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let folder = root().join(target).join("mutants");
    let files = plant::sources()?;
    let all = plant::mutants(&files)?;
    let (programs, planted) = build(&folder, &files, &all)?;
    println!("{} mutants, of which {} compile", all.len(), planted.numbers.len());
    let mut chosen: Vec<&Mutant> = all.iter().collect();
    chosen.retain(|mutant| planted.numbers.contains(&mutant.number));
    chosen.retain(|mutant| mutant.name.starts_with(&within));
    if sample < chosen.len() {
        chosen.retain(|mutant| mutant.folder != BUGS || within == BUGS);
        chosen.sort_by_key(|mutant| {
            let mut hasher = DefaultHasher::new();
            (&seed, &mutant.name).hash(&mut hasher);
            hasher.finish()
        });
        chosen.truncate(sample);
    }
    let mut suite = Suite { programs, tree: folder.join("tree"), tests: Vec::new() };
    let of_product = |name: &str| folder.join(format!("{name}-{:016x}", planted.product));
    suite.measure(&of_product("tests"))?;
    let ends = judge(&suite, &all, &chosen, &of_product("ends"), planted.others)?;
    println!("caught timeout missed");
    for folder in FOLDERS.into_iter().map(Some).chain([None]) {
        let mut counts = [0; 3];
        for mutant in chosen.iter().filter(|mutant| folder.is_none_or(|its| its == mutant.folder)) {
            match ends.get(&mutant.number) {
                Some(End::Failed(_)) => counts[0] += 1,
                Some(End::Hung(_)) => counts[1] += 1,
                _ => counts[2] += 1,
            }
        }
        let [caught, hung, missed] = counts;
        let score = 100 * (caught + hung) / (caught + hung + missed).max(1);
        println!("{caught:6} {hung:7} {missed:6} {score:3} % {}", folder.unwrap_or("all"));
    }
    println!("seed {seed}, {} mutants, {:.0?}", chosen.len(), clock.elapsed());
    let is_missed = |mutant: &&Mutant| ends.get(&mutant.number) == Some(&End::Passed);
    match chosen.into_iter().filter(is_missed).any(|mutant| mutant.folder == BUGS) {
        true => Err(io::Error::other("no test notices a bug that this library once had")),
        false => Ok(()),
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A call of a program that does not see what cargo has told this one about its own package: build scripts that look at that
/// would run again.
fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        let told = ["CARGO_PKG_", "CARGO_MANIFEST_"];
        if told.iter().any(|start| name.to_str().is_some_and(|name| name.starts_with(start))) {
            command.env_remove(name);
        }
    }
    command
}

/// How long something takes.
#[allow(clippy::disallowed_types)] // Decides nothing about locks, and this package has no runtime.
struct Stopwatch(std::time::Instant);

#[allow(clippy::disallowed_types)]
impl Stopwatch {
    fn start() -> Self {
        Self(std::time::Instant::now())
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Builds the tests with all mutants that compile. The names of the others are kept, and these left out the next time.
fn build(
    folder: &Path,
    files: &BTreeMap<String, String>,
    mutants: &[Mutant],
) -> io::Result<(BTreeMap<String, PathBuf>, Planted)> {
    let (tree, list) = (folder.join("tree"), folder.join("do-not-compile"));
    fs::create_dir_all(&tree)?;
    let text = fs::read_to_string(&list).unwrap_or_default();
    let mut removed: BTreeSet<String> = text.lines().map(str::to_owned).collect();
    loop {
        let kept: Vec<&Mutant> =
            mutants.iter().filter(|mutant| !removed.contains(&mutant.name)).collect();
        let planted = plant::plant(&tree, files, &kept)?;
        let mut cargo = command(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["test", "--all-features", "--no-run", "--color=never"]);
        cargo.args(BUILT.split_whitespace());
        cargo.current_dir(&tree).env("CARGO_TARGET_DIR", folder.join("build"));
        eprintln!("==> building the tests with {} mutants", planted.numbers.len());
        let built = cargo.output()?;
        let said = String::from_utf8_lossy(&built.stderr);
        if built.status.success() {
            let program = |line: &str| {
                let (_, path) = line.trim().strip_prefix("Executable ")?.rsplit_once('(')?;
                let path = PathBuf::from(path.strip_suffix(')')?);
                Some((path.file_name()?.to_str()?.rsplit_once('-')?.0.to_owned(), path))
            };
            return Ok((said.lines().filter_map(program).collect(), planted));
        }
        let before = removed.len();
        for error in said.split("\nerror").skip(1) {
            let numbers = blamed(&tree, error).unwrap_or_default();
            let blamed = mutants.iter().filter(|mutant| numbers.contains(&mutant.number));
            removed.extend(blamed.map(|mutant| mutant.name.clone()));
        }
        if removed.len() == before {
            return Err(io::Error::other(format!("the tests were not built:\n{said}")));
        }
        fs::write(&list, removed.iter().map(|name| format!("{name}\n")).collect::<String>())?;
    }
}

/// The mutants that an error of the compiler comes from.
fn blamed(tree: &Path, error: &str) -> Option<Vec<usize>> {
    let mut lines = error.lines().skip_while(|line| !line.trim().starts_with("--> "));
    let mut place = lines.next()?.trim().strip_prefix("--> ")?.splitn(3, ':');
    let file = place.next()?;
    let file = file.rsplit_once("../").map_or(file, |(_, file)| file);
    let place = (place.next()?.parse().ok()?, place.next()?.parse().ok()?);
    // The excerpt, up to the next message.
    let numbers = lines.take_while(|line| !line.trim().is_empty());
    let told: Vec<usize> =
        numbers.filter_map(|line| line.split_once(" | ")?.0.trim().parse().ok()).collect();
    let text = fs::read_to_string(tree.join(file)).ok()?;
    Some(plant::blamed(&text, place, &told))
}

/// Prints what the tests say of each mutant. What they said before is in `record`: of one that they noticed for this product,
/// of another for these tests.
fn judge(
    suite: &Suite,
    all: &[Mutant],
    chosen: &[&Mutant],
    record: &Path,
    tests: u64,
) -> io::Result<BTreeMap<usize, End>> {
    let (mut known, tests) = (BTreeMap::new(), format!("{tests:016x}"));
    for line in fs::read_to_string(record).unwrap_or_default().lines() {
        let end = match line.split('\t').collect::<Vec<_>>()[..] {
            [name, "caught", test] => (name.to_owned(), End::Failed(test.to_owned())),
            [name, "timeout", test] => (name.to_owned(), End::Hung(test.to_owned())),
            [name, "missed", its] if its == tests => (name.to_owned(), End::Passed),
            _ => continue,
        };
        known.insert(end.0, end.1);
    }
    let file = Mutex::new(OpenOptions::new().create(true).append(true).open(record)?);
    let killers = Mutex::new(BTreeMap::<&str, BTreeSet<String>>::new());
    let ends = Mutex::new(BTreeMap::new());
    let workers = 2 * thread::available_parallelism().map_or(1, usize::from);
    parallel(workers, chosen.iter().enumerate(), |(n, mutant)| {
        let of_file = all.iter().filter(|other| other.file == mutant.file);
        let of_file = of_file.map(|other| other.number).collect();
        let its = locked(&killers).get(&*mutant.file).cloned().unwrap_or_default();
        let (end, ran) = match known.get(&mutant.name) {
            Some(end) => (end.clone(), 0),
            None => suite.judge(mutant.number, &of_file, &its, mutant.folder == BUGS),
        };
        let (word, more) = match &end {
            End::Failed(test) => ("caught", test),
            End::Hung(test) => ("timeout", test),
            End::Passed => ("missed", &tests),
        };
        if !known.contains_key(&mutant.name) {
            let line = format!("{}\t{word}\t{more}\n", mutant.name);
            let _ = locked(&file).write_all(line.as_bytes());
        }
        if let End::Failed(test) = &end {
            locked(&killers).entry(&mutant.file).or_default().insert(test.clone());
        }
        let more = if end == End::Passed { format!("{ran} tests ran") } else { more.clone() };
        println!("{}/{} {word} {} ({more})", n + 1, chosen.len(), mutant.name);
        locked(&ends).insert(mutant.number, end);
    });
    Ok(ends.into_inner().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bug_has_its_place() {
        let files = plant::sources().expect("git lists the sources");
        let mutants = plant::mutants(&files).unwrap_or_else(|why| panic!("{why}"));
        let bugs: Vec<&Mutant> = mutants.iter().filter(|mutant| mutant.folder == BUGS).collect();
        let page = &files["docs/safety.md"];
        for bug in &bugs {
            let name = bug.name.trim_start_matches("bugs: ");
            assert!(page.contains(&format!("*{name}*")), "docs/safety.md does not have `{name}`");
        }
        let names: BTreeSet<_> = bugs.iter().map(|bug| &bug.name).collect();
        assert_eq!(names.len(), bugs.len(), "two bugs have one name");
    }
}
