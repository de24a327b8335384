//! The tests: which of them reach which mutants, and what they say of one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;
use std::{fs, io, thread};

use crate::{Stopwatch, command};

/// How many tests of a mutant run at once, and how many while all are measured. They wait for most of their time.
const THREADS: u32 = 4;
const MEASURED: usize = 10;
/// How much longer than without a mutant tests may take, and how much longer still: the machine may be busier.
const SLOWER: u32 = 4;
const GRACE: Duration = Duration::from_secs(30);
/// How long the tests of a mutant that none notices would take one by one: the others are left out.
const LONGEST: Duration = Duration::from_secs(1500);
/// Tests that call cargo.
const LEFT_OUT: [&str; 4] = ["--skip", "examples::", "--skip", "tower::orders::"];

/// What tests said of a mutant.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum End {
    Passed,
    Failed(String),
    Hung(String),
}

/// A test, and what it did without a mutant.
#[derive(Debug, Clone)]
pub(super) struct Test {
    program: String,
    name: String,
    took: Duration,
    reached: BTreeSet<usize>,
}

impl Test {
    /// A line of the record, if the test passes.
    fn of(line: &str) -> Option<Self> {
        let mut parts = line.splitn(4, '\t');
        let (program, name) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        let took = Duration::from_millis(parts.next()?.parse().ok()?);
        let reached = parts.next()?.split(' ').filter_map(|number| number.parse().ok()).collect();
        Some(Self { program, name, took, reached })
    }
}

/// The test programs, and their tests that pass without a mutant.
pub(super) struct Suite {
    pub(super) programs: BTreeMap<String, PathBuf>,
    pub(super) tree: PathBuf,
    pub(super) tests: Vec<Test>,
}

impl Suite {
    /// Runs each test alone that `record` does not have yet, and writes what it did there.
    ///
    /// # Errors
    ///
    /// When a test program does not run, or the record cannot be written.
    pub(super) fn measure(&mut self, record: &Path) -> io::Result<()> {
        let known = fs::read_to_string(record).unwrap_or_default();
        let known: BTreeMap<_, _> = known
            .lines()
            .filter_map(Test::of)
            .map(|test| ((test.program.clone(), test.name.clone()), test))
            .collect();
        let mut listed = Vec::new();
        for program in self.programs.keys() {
            let ignored = self.listed(program, &["--ignored"])?;
            let all = self.listed(program, &LEFT_OUT)?;
            listed.extend(all.difference(&ignored).map(|name| (program.clone(), name.clone())));
        }
        let new: Vec<_> = listed.iter().filter(|test| !known.contains_key(test)).collect();
        eprintln!("==> running {} of {} tests, each alone", new.len(), listed.len());
        let file = Mutex::new(fs::OpenOptions::new().create(true).append(true).open(record)?);
        let measured = Mutex::new(Vec::new());
        parallel(MEASURED, new.iter().enumerate(), |(n, (program, name))| {
            let reached = record.with_extension(n.to_string());
            let (mut end, mut took) = (End::Passed, Duration::ZERO);
            // If need be once more, since a busy machine may be late once.
            for _ in 0..2 {
                let clock = Stopwatch::start();
                end = self.run(program, &[name], 0, GRACE * 4, Some(&reached));
                took = clock.elapsed();
                if end == End::Passed {
                    break;
                }
            }
            let numbers = fs::read_to_string(&reached).unwrap_or_default().replace('\n', " ");
            let _ = fs::remove_file(reached);
            if end != End::Passed {
                println!("fails without a mutant: {program} {name}");
                return;
            }
            let line = format!("{program}\t{name}\t{}\t{numbers}\n", took.as_millis());
            let _ = locked(&file).write_all(line.as_bytes());
            locked(&measured).extend(Test::of(line.trim_end()));
            if n % 100 == 0 {
                eprintln!("==> {n} of {}", new.len());
            }
        });
        self.tests = listed.iter().filter_map(|test| known.get(test).cloned()).collect();
        self.tests.extend(measured.into_inner().unwrap_or_else(PoisonError::into_inner));
        self.tests.sort_by_key(|test| test.took);
        Ok(())
    }

    fn listed(&self, program: &str, args: &[&str]) -> io::Result<BTreeSet<String>> {
        let output = self.command(program).arg("--list").args(args).output()?;
        let listed = String::from_utf8_lossy(&output.stdout);
        Ok(listed
            .lines()
            .filter_map(|line| Some(line.strip_suffix(": test")?.to_owned()))
            .collect())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = command(&self.programs[program]);
        let folder = self.tree.join(match program {
            "lock_runtime" => "lock-runtime",
            "lock_tower" => "lock-tower",
            "orders" => "models/tasks",
            _ => "tests",
        });
        command.current_dir(&folder).env("CARGO_MANIFEST_DIR", folder);
        command.env("RUST_BACKTRACE", "0").stdin(Stdio::null());
        command
    }

    /// Runs tests of one program until one fails. The mutant 0 is none.
    fn run(
        &self,
        program: &str,
        names: &[&String],
        mutant: usize,
        bound: Duration,
        reached: Option<&Path>,
    ) -> End {
        let mut command = self.command(program);
        command.arg("--exact").args(names).args(["--test-threads", &THREADS.to_string()]);
        command.env("LOCK_MUTANT", mutant.to_string());
        command.envs(reached.map(|file| ("LOCK_MUTANTS_REACHED", file)));
        let spawned = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let Ok(mut child) = spawned else { return End::Failed("its program".to_owned()) };
        let (send, lines) = mpsc::channel();
        let output = child.stdout.take();
        thread::spawn(move || {
            let lines = output.into_iter().flat_map(|output| BufReader::new(output).lines());
            lines.map_while(Result::ok).take_while(|line| send.send(line.clone()).is_ok()).count()
        });
        let clock = Stopwatch::start();
        let mut left: BTreeSet<&str> = names.iter().map(|name| name.as_str()).collect();
        let end = loop {
            let line = lines.recv_timeout(bound.saturating_sub(clock.elapsed()));
            let unfinished = || left.iter().copied().next().unwrap_or_default().to_owned();
            match line {
                Err(mpsc::RecvTimeoutError::Timeout) => break End::Hung(unfinished()),
                // It has ended without its last line.
                Err(mpsc::RecvTimeoutError::Disconnected) => break End::Failed(unfinished()),
                // Not the end of the program, which servers that it has started may delay.
                Ok(line) if line.starts_with("test result: ok") && left.is_empty() => {
                    break End::Passed;
                }
                Ok(line) if line.starts_with("test result: ") => break End::Failed(unfinished()),
                Ok(line) => {
                    let result =
                        line.strip_prefix("test ").and_then(|line| line.rsplit_once(" ... "));
                    let Some((name, result)) = result else { continue };
                    let name = name.trim_end_matches(" - should panic");
                    left.remove(name);
                    if result.starts_with("FAILED") {
                        break End::Failed(name.to_owned());
                    }
                }
            }
        };
        let _ = child.kill();
        let _ = child.wait();
        end
    }

    /// Runs tests that reach the mutant, until one fails: first the killers of others of `file`, the mutants there. If there
    /// are many, it runs `all` or some.
    pub(super) fn judge(
        &self,
        mutant: usize,
        file: &BTreeSet<usize>,
        killers: &BTreeSet<String>,
        all: bool,
    ) -> (End, usize) {
        let reach = |test: &&Test| test.reached.contains(&mutant);
        let (mut queue, mut others): (Vec<&Test>, Vec<&Test>) =
            self.tests.iter().filter(reach).partition(|test| killers.contains(&test.shown()));
        // A third of the time is for the quickest, one for those that reach most of the file, and one for some of all the rest,
        // the longest first, as those do most.
        for order in 0..3 {
            let mut step = 1;
            if order == 1 {
                others.sort_by_cached_key(|test| Reverse(test.reached.intersection(file).count()));
            } else if order == 2 {
                others.sort_by_key(|test| Reverse(test.took));
                let rest: Duration = others.iter().map(|test| test.took).sum();
                step += if all { 0 } else { (rest.as_secs() / (LONGEST / 3).as_secs()) as usize };
            }
            let mut time = Duration::ZERO;
            let fits = |test: &&&Test| {
                time += test.took;
                time < LONGEST / 3 || all && order == 2
            };
            let next: Vec<&Test> = others.iter().step_by(step).take_while(fits).copied().collect();
            others.retain(|other| !next.iter().any(|test| std::ptr::eq(*test, *other)));
            queue.extend(next);
        }
        let (mut ran, mut size) = (queue.len(), 8);
        while !queue.is_empty() {
            let program = queue[0].program.clone();
            let mut batch: Vec<&Test> = Vec::new();
            queue.retain(|test| {
                let is_next = test.program == program && batch.len() < size;
                batch.extend(is_next.then_some(*test));
                !is_next
            });
            size *= 2;
            while !batch.is_empty() {
                let names: Vec<&String> = batch.iter().map(|test| &test.name).collect();
                let slowest = batch.iter().map(|test| test.took).max().unwrap_or_default();
                let sum: Duration = batch.iter().map(|test| test.took).sum();
                let bound = (sum / THREADS + slowest) * SLOWER + GRACE;
                let fails = |name: &String, mutant| {
                    self.run(&program, &[name], mutant, bound, None) != End::Passed
                };
                let name = match self.run(&program, &names, mutant, bound, None) {
                    End::Passed => break,
                    End::Hung(name) => return (End::Hung(format!("{program} {name}")), ran),
                    End::Failed(name) => name,
                };
                // It has to fail for the mutant, and not because the machine is busy.
                if fails(&name, mutant) && !fails(&name, 0) {
                    return (End::Failed(format!("{program} {name}")), ran);
                }
                batch.retain(|test| test.name != name);
                ran -= 1;
            }
        }
        (End::Passed, ran)
    }
}

impl Test {
    fn shown(&self) -> String {
        format!("{} {}", self.program, self.name)
    }
}

pub(super) fn locked<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does `work` for each item, several at once.
pub(super) fn parallel<T: Send>(
    workers: usize,
    items: impl Iterator<Item = T> + Send,
    work: impl Fn(T) + Sync,
) {
    let items = Mutex::new(items);
    let next = || locked(&items).next();
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| std::iter::from_fn(next).for_each(&work));
        }
    });
}
