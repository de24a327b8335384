//! The mutation score: how many small changes of the product some test notices.
//!
//! All mutants are planted in one copy of the sources, each behind a switch, and an environment variable turns one of them on:
//! so the tests are built once for all, and the sources themselves have no room kept for mutants. Each test runs once
//! without a mutant and records which it reaches; a mutant then runs only the tests that reach it.

mod bugs;
mod lua;
mod plant;
mod rust;
mod suite;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{fs, io, thread};

use self::bugs::BUGS;
use self::suite::{End, Suite};
use crate::cargo::{self, Stopwatch};
use crate::{Failure, Step, redis, value_of};

/// A version whose list this program can read.
const CARGO_MUTANTS: &str = "27.1.0";

/// The folders of the score. A file counts for the first that it is in.
const FOLDERS: [&str; 14] = [
    "lock-runtime/src/acquire/",
    "lock-runtime/src/gate/",
    "lock-runtime/src/lease/",
    "lock-runtime/src/owned_hold/",
    "lock-runtime/src/guard/",
    "lock-runtime/src/scope.rs",
    "lock-runtime/src/store/redis/scripts/",
    "lock-runtime/src/store/redis/",
    "lock-runtime/src/store/compose/",
    "lock-runtime/src/private/",
    "lock-runtime/src/blocking.rs",
    "lock-runtime/src/own_runtime/",
    "lock-tower/src/",
    "bugs",
];

/// The packages with tests that are asked.
const PACKAGES: [&str; 4] = ["lock-tests", "lock-runtime", "lock-tower", "lock-task-model"];

/// The test programs, and the folders where each runs.
const PROGRAMS: [(&str, &str); 11] = [
    ("lock_runtime", "lock-runtime"),
    ("lock_tower", "lock-tower"),
    ("orders", "models/tasks"),
    ("blocking", "tests"),
    ("cancel", "tests"),
    ("faults", "tests"),
    ("hostile", "tests"),
    ("installed_client", "tests"),
    ("it", "tests"),
    ("policy", "tests"),
    ("skip_without_client", "tests"),
];

/// A change of the product that some test should notice.
#[derive(Debug)]
struct Mutant {
    number: usize,
    file: String,
    line: usize,
    at: usize,
    what: String,
    /// In a script: what is replaced, and by what.
    place: Option<Range<usize>>,
    new: String,
}

impl Mutant {
    fn folder(&self) -> Option<&'static str> {
        let is_bug = self.number <= BUGS.len();
        FOLDERS
            .into_iter()
            .find(|folder| if is_bug { *folder == "bugs" } else { self.file.starts_with(folder) })
    }

    /// Not what only people read.
    fn counts(&self) -> bool {
        self.folder().is_some()
            && !["::fmt", "impl Debug", "delete field"].iter().any(|part| self.what.contains(part))
    }

    fn shown(&self) -> String {
        format!("{}:{}: {}", self.file, self.line, self.what)
    }
}

/// Prints the score of a sample of the mutants, and each that no test has noticed.
///
/// # Errors
///
/// When the tests cannot be built, or none of them notices a bug that this library once had.
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    let mut args = args.to_vec();
    let within =
        value_of(&mut args, "--in", "a part of a path or of a change")?.unwrap_or_default();
    let sample = value_of(&mut args, "--sample", "a number")?;
    let seed = value_of(&mut args, "--seed", "a number")?;
    let seed = seed.unwrap_or_else(|| (RandomState::new().hash_one(0) % 10_000).to_string());
    let only = value_of(&mut args, "--tests", "names of test programs, as in `it,faults`")?;
    if let Some(arg) = args.first() {
        return Err(Failure::message(format!("`mutants` takes no `{arg}`")));
    }
    let (clock, redis) = (Stopwatch::start(), redis::find_or_install()?);
    let folder = cargo::build_folder().join("mutants");
    let cannot = |error: io::Error| {
        Failure::message(format!("cannot write to {}: {error}", folder.display()))
    };
    let listed = listed()?;
    let bugs = BUGS.iter().enumerate().map(|(n, bug)| Mutant {
        number: n + 1,
        file: bug.file.to_owned(),
        line: 0,
        at: 0,
        what: format!("bugs: {}", bug.name),
        place: None,
        new: String::new(),
    });
    let mut mutants: Vec<Mutant> = plant::generated(&listed).map_err(cannot)?;
    let all = mutants.len();
    mutants.retain(Mutant::counts);
    let counted = mutants.len();
    let (programs, planted, hash) = build(&folder, &mutants, only.as_deref())?;
    println!(
        "{} mutants: {} of {counted} in the folders of the score, {} elsewhere",
        all,
        planted.range(BUGS.len() + 1..).count(),
        all - counted
    );
    let mut chosen: Vec<Mutant> = mutants.into_iter().chain(bugs).collect();
    chosen.retain(|mutant| planted.contains(&mutant.number) && mutant.shown().contains(&within));
    if let Some(sample) = sample {
        let sample = sample.parse().map_err(|_| Failure::message("`--sample` needs a number"))?;
        chosen.retain(|mutant| mutant.number > BUGS.len() || within == "bugs");
        chosen.sort_by_key(|mutant| hashed((&seed, mutant.shown())));
        chosen.truncate(sample);
    }
    let mut suite = Suite { programs, tree: folder.join("tree"), redis, tests: Vec::new() };
    let record = folder.join(format!("tests-{hash:016x}"));
    suite.measure(&record).map_err(cannot)?;
    let missed = judge(&suite, &chosen);
    println!("seed {seed}, {} mutants, {:.0?}", chosen.len(), clock.elapsed());
    match missed.iter().any(|number| *number <= BUGS.len()) {
        true => Err(Failure::message("no test notices a bug that this library once had")),
        false => Ok(()),
    }
}

fn hashed(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// What `cargo mutants` could change.
fn listed() -> Result<String, Failure> {
    let folder = cargo::build_folder().join("tools/cargo-mutants");
    let program = folder.join("bin/cargo-mutants");
    if !program.exists() {
        let root = folder.display().to_string();
        let package = format!("cargo-mutants@{CARGO_MUTANTS}");
        Step::new("install").args(&["--quiet", "--locked", "--root", &root, &package]).run()?;
    }
    let mut list = cargo::command(program);
    list.args(["mutants", "--list", "-p", "lock-runtime", "-p", "lock-tower"]);
    let output = list.current_dir(cargo::workspace_root()).output();
    let output =
        output.map_err(|error| Failure::message(format!("cannot run cargo-mutants: {error}")))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(Failure::message(String::from_utf8_lossy(&output.stderr))),
    }
}

/// The test programs by their names.
type Programs = BTreeMap<String, PathBuf>;

/// Builds the tests with all mutants that compile. Returns the programs, the numbers of these mutants, and a hash of the
/// planted files.
fn build(
    folder: &Path,
    mutants: &[Mutant],
    only: Option<&str>,
) -> Result<(Programs, BTreeSet<usize>, u64), Failure> {
    let tree = folder.join("tree");
    let cannot = |error: io::Error| Failure::message(format!("cannot plant mutants: {error}"));
    let file = folder.join("removed");
    let text = fs::read_to_string(&file).unwrap_or_default();
    let mut removed: BTreeSet<String> = text.lines().map(str::to_owned).collect();
    loop {
        let kept: Vec<&Mutant> =
            mutants.iter().filter(|mutant| !removed.contains(&mutant.shown())).collect();
        let (planted, hash) = plant::plant(&tree, &kept).map_err(cannot)?;
        let mut cargo = cargo::command(cargo::cargo());
        cargo.args(["test", "--all-features", "--no-run", "--message-format=short"]);
        // Always of all packages, or other features would be chosen, and all be compiled again.
        cargo.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
        let is_chosen =
            |name: &str| only.is_none_or(|only| only.split(',').any(|part| part == name));
        let chosen = PROGRAMS.iter().map(|(name, _)| *name).filter(|name| is_chosen(name));
        let (libraries, tests): (Vec<_>, Vec<_>) =
            chosen.partition(|name| name.starts_with("lock_"));
        cargo.args(libraries.first().map(|_| "--lib"));
        cargo.args(tests.iter().flat_map(|name| ["--test", name]));
        cargo.current_dir(&tree).env("CARGO_TARGET_DIR", folder.join("build"));
        eprintln!("==> building the tests with {} mutants", planted.len());
        let built = cargo.output().map_err(cannot)?;
        let said = String::from_utf8_lossy(&built.stderr);
        if built.status.success() {
            let programs = said.lines().filter_map(|line| {
                let path = PathBuf::from(
                    line.trim()
                        .strip_prefix("Executable")?
                        .rsplit_once('(')?
                        .1
                        .strip_suffix(')')?,
                );
                let name = path.file_name()?.to_str()?.rsplit_once('-')?.0.to_owned();
                Some((name, path))
            });
            let programs = programs.filter(|(name, _)| is_chosen(name));
            return Ok((programs.collect(), planted, hash));
        }
        let before = removed.len();
        let numbers = blamed(&tree, &said).map_err(cannot)?;
        let blamed = kept.iter().filter(|mutant| numbers.contains(&mutant.number));
        removed.extend(blamed.map(|mutant| mutant.shown()));
        if removed.len() == before {
            return Err(Failure::message(format!("the tests were not built:\n{said}")));
        }
        let text: Vec<&str> = removed.iter().map(String::as_str).collect();
        fs::write(&file, text.join("\n")).map_err(cannot)?;
    }
}

/// The mutants that the errors of the compiler are in, or behind.
fn blamed(tree: &Path, said: &str) -> io::Result<BTreeSet<usize>> {
    let mut errors = BTreeMap::<&str, BTreeSet<(usize, usize)>>::new();
    for error in said.lines().filter(|line| line.contains(": error")) {
        let mut parts = error.splitn(4, ':');
        let file = parts.next().unwrap_or_default();
        let file = file.rsplit_once("../").map_or(file, |(_, file)| file);
        if let (Some(Ok(line)), Some(Ok(column))) =
            (parts.next().map(str::parse), parts.next().map(str::parse))
        {
            errors.entry(file).or_default().insert((line, column));
        }
    }
    let mut numbers = BTreeSet::new();
    for (file, places) in errors {
        let source = fs::read_to_string(tree.join(file))?;
        let masked = text::masked(&source, false);
        let tokens = text::tokens(&masked);
        // Each switch with the code that only it reaches: the block behind it, or nothing but the call.
        let mut switches = Vec::new();
        for (start, number) in plant::switches(&source) {
            let call = start + masked[start..].find(')').unwrap_or(0);
            let open = tokens.partition_point(|token| token.start <= call);
            let is_block = tokens.get(open).is_some_and(|token| &masked[token.clone()] == "{");
            let close = is_block.then(|| text::partner(&masked, &tokens, open)).flatten();
            // The path before the name belongs to it.
            let start = start - "lock_runtime::".len();
            switches.push((start..close.map_or(call, |close| tokens[close].end) + 1, number));
        }
        switches.sort_by_key(|(range, _)| range.start);
        for at in places.into_iter().map(|(line, column)| plant::offset(&source, line, column)) {
            let around = switches.iter().filter(|(range, _)| range.contains(&at));
            let found: Vec<usize> = around.map(|(_, number)| *number).collect();
            let nearest = switches.iter().rev().find(|(range, _)| range.start <= at);
            match found.is_empty() {
                false => numbers.extend(found),
                true => numbers.extend(nearest.map(|(_, number)| *number)),
            }
        }
    }
    Ok(numbers)
}

/// Does `work` for each item, several at once.
fn parallel<T: Send>(
    workers: usize,
    items: impl Iterator<Item = T> + Send,
    work: impl Fn(T) + Sync,
) {
    let items = Mutex::new(items);
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| std::iter::from_fn(next).for_each(&work));
        }
    });
}

/// Prints what the tests say of each mutant, and the score of each folder. Returns those that none noticed.
fn judge(suite: &Suite, mutants: &[Mutant]) -> BTreeSet<usize> {
    let (killers, ends) =
        (Mutex::new(BTreeMap::<&str, BTreeSet<_>>::new()), Mutex::new(BTreeMap::new()));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    parallel(2 * cores, mutants.iter(), |mutant| {
        let known =
            killers.lock().unwrap_or_else(PoisonError::into_inner).get(&*mutant.file).cloned();
        let end = suite.judge(mutant.number, &known.unwrap_or_default());
        let reaching = suite.reaching(mutant.number);
        match &end {
            End::Failed(test) => println!("caught  {} ({test})", mutant.shown()),
            End::Hung(test) => println!("timeout {} ({test})", mutant.shown()),
            End::Passed => println!("MISSED  {} ({reaching} tests reach it)", mutant.shown()),
        }
        if let End::Failed(test) = &end {
            let killer =
                test.split_once(' ').map(|(program, name)| (program.to_owned(), name.to_owned()));
            killers
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .entry(&mutant.file)
                .or_default()
                .extend(killer);
        }
        ends.lock().unwrap_or_else(PoisonError::into_inner).insert(mutant.number, end);
    });
    let ends = ends.into_inner().unwrap_or_else(PoisonError::into_inner);
    let count = |folder: Option<&str>, is: &dyn Fn(&End) -> bool| {
        let its = mutants.iter().filter(|mutant| folder.is_none() || mutant.folder() == folder);
        its.filter(|mutant| ends.get(&mutant.number).is_some_and(is)).count()
    };
    println!("caught timeout missed");
    for folder in FOLDERS.into_iter().map(Some).chain([None]) {
        let caught = count(folder, &|end| matches!(end, End::Failed(_)));
        let hung = count(folder, &|end| matches!(end, End::Hung(_)));
        let missed = count(folder, &|end| *end == End::Passed);
        let score = 100 * (caught + hung) / (caught + hung + missed).max(1);
        println!("{caught:6} {hung:7} {missed:6} {score:3} % {}", folder.unwrap_or("all"));
    }
    ends.into_iter().filter(|(_, end)| *end == End::Passed).map(|(number, _)| number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(number: usize, file: &str, source: &str, at: &str, what: &str) -> Mutant {
        let at = source.find(at).expect("the place exists");
        Mutant {
            number,
            file: file.to_owned(),
            line: 1,
            at,
            what: what.to_owned(),
            place: None,
            new: String::new(),
        }
    }

    #[test]
    fn every_bug_has_its_place() {
        let root = PathBuf::from(cargo::workspace_root());
        for (n, bug) in BUGS.iter().enumerate() {
            let source = fs::read_to_string(root.join(bug.file)).expect("the file of a bug exists");
            let planted =
                plant::planted(bug.file, &source, &[]).unwrap_or_else(|why| panic!("{why}"));
            assert!(
                plant::switches(&planted).any(|(_, number)| number == n + 1),
                "{} has no place",
                bug.name
            );
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

    /// The body of a function with one change of its text, on one line.
    fn planted(body: &str, at: &str, what: &str) -> String {
        let source = format!("fn f() {{ {body} }}");
        let one = mutant(7, "x.rs", &source, at, what);
        let planted = plant::planted("x.rs", &source, &[&one]).expect("no bug belongs here");
        let words: Vec<&str> = planted.split_whitespace().collect();
        words.join(" ").replace("crate::mutants::is_on(7)", "ON")
    }

    #[test]
    fn each_kind_of_mutant_is_switched() {
        let value = planted("a", "a", "replace f -> u8 with 1");
        assert_eq!(value, "fn f() { if ON { return 1; } a }");
        let operator = planted("let x = g(1) < !y.h()? && z;", "<", "replace < with == in f");
        assert_eq!(
            operator,
            "fn f() { let x = (if ON { (g(1) ) == (!y.h()? ) } else { g(1) < !y.h()? }) && z; }"
        );
        let of_three = planted("return a - b + c * d;", "+", "replace + with - in f");
        assert_eq!(
            of_three,
            "fn f() { return (if ON { (a - b ) - (c * d ) } else { a - b + c * d }); }"
        );
        let unary = planted("if !a.b() && c {}", "!", "delete ! in f");
        assert_eq!(unary, "fn f() { if (if ON { a.b() } else { !a.b() }) && c {} }");
        let assigned = planted("if x { self.a += b + 1; }", "+=", "replace += with -= in f");
        assert_eq!(
            assigned,
            "fn f() { if x { (if ON { (self.a ) -= (b + 1 ) } else { self.a += b + 1 }); } }"
        );
        let arm = planted("match a { (1, _) => b, _ => c }", "(1", "delete match arm (1, _) in f");
        assert_eq!(arm, "fn f() { match a { (1, _) if !ON => b, _ => c } }");
        let with_guard = planted(
            "match a { 1 if b || c => d, _ => e }",
            "1",
            "delete match arm 1 if b || c in f",
        );
        assert_eq!(with_guard, "fn f() { match a { 1 if !ON && (b || c ) => d, _ => e } }");
        let with_let =
            planted("match a { 1 if let B = c => d, _ => e }", "1", "delete match arm 1 in f");
        assert_eq!(with_let, "fn f() { match a { 1 if !ON && let B = c => d, _ => e } }");
        let none = "a > b + if c > 0 { 1 } else { 2 }";
        assert_eq!(planted(none, ">", "replace > with < in f"), format!("fn f() {{ {none} }}"));
        let guard =
            planted("match a { 1 if b => d, _ => e }", "b", "replace match guard b with true in f");
        assert_eq!(guard, "fn f() { match a { 1 if (if ON { true } else { b }) => d, _ => e } }");
    }

    #[test]
    fn comments_and_strings_are_no_code() {
        let masked = text::masked("a // <\n \"\\\"<\" '<' r#\"<\"# 'a", false);
        assert_eq!(masked, "a     \n _____ ___ ______ 'a");
    }

    #[test]
    fn scripts_have_other_operators_numbers_and_lines() {
        let source = "-- a < b\nif not a and b <= 1 then\n  call('DEL', KEYS[1], ARGV[1])\nend\n";
        let mutants = lua::mutants(source);
        let mutants: Vec<_> =
            mutants.iter().map(|(place, new)| (&source[place.clone()], new.as_str())).collect();
        let line = "call('DEL', KEYS[1], ARGV[1])";
        assert_eq!(
            mutants,
            [("not", ""), ("and", "or"), ("<=", "<"), ("1", "2"), (line, ""), ("1", "2")]
        );
    }
}
