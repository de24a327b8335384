//! The tests: which of them reach which mutants, and what they say of one.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;
use std::{fs, io, thread};

use super::{PROGRAMS, parallel};
use crate::cargo::{self, Stopwatch};

/// How many tests of a mutant run at once.
const THREADS: u32 = 4;
/// How much longer than without a mutant tests may take, and how much longer still: the machine is busier then.
const SLOWER: u32 = 4;
const GRACE: Duration = Duration::from_secs(40);
/// How many tests a mutant that none catches runs, and for how long if they ran one by one.
const MOST_TESTS: usize = 400;
const LONGEST: Duration = Duration::from_secs(300);

/// How tests ended.
#[derive(Debug, PartialEq)]
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

/// The tests that pass without a mutant.
pub(super) struct Suite {
    pub(super) programs: BTreeMap<String, PathBuf>,
    pub(super) tree: PathBuf,
    pub(super) redis: PathBuf,
    pub(super) tests: Vec<Test>,
}

impl Suite {
    /// Runs each test alone that `record` does not have yet, and writes what it did there.
    pub(super) fn measure(&mut self, record: &Path) -> io::Result<()> {
        // A test that failed has another chance each time.
        let mut text = fs::read_to_string(record).unwrap_or_default();
        text = text.split_inclusive('\n').filter(|line| !line.contains("\t-\t")).collect();
        let known: BTreeSet<String> = text
            .lines()
            .filter_map(|line| Some(line.rsplitn(3, '\t').nth(2)?.to_owned()))
            .collect();
        let mut tests = Vec::new();
        for program in self.programs.keys() {
            let ignored = self.listed(program, &["--ignored"])?;
            let listed = self.listed(program, &[])?;
            tests.extend(listed.difference(&ignored).map(|name| (program.clone(), name.clone())));
        }
        let new =
            tests.iter().filter(|(program, name)| !known.contains(&format!("{program}\t{name}")));
        let new: Vec<_> = new.collect();
        eprintln!("==> running {} of {} tests, each alone", new.len(), tests.len());
        let lines = Mutex::new(Vec::new());
        parallel(3 * THREADS as usize, new.iter().enumerate(), |(n, (program, name))| {
            let reached = record.with_extension(n.to_string());
            let clock = Stopwatch::start();
            let names = [name.as_str()];
            // If need be once more, since a busy machine may be late once.
            let passes = (0..2)
                .any(|_| self.run(program, &names, 0, GRACE * 3, Some(&reached)) == End::Passed);
            let took =
                if passes { clock.elapsed().as_millis().to_string() } else { "-".to_owned() };
            let numbers = fs::read_to_string(&reached).unwrap_or_default().replace('\n', " ");
            let _ = fs::remove_file(reached);
            let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
            lines.push(format!("{program}\t{name}\t{took}\t{numbers}\n"));
        });
        text.extend(lines.into_inner().unwrap_or_else(PoisonError::into_inner));
        fs::write(record, &text)?;
        let present: BTreeSet<_> = tests.into_iter().collect();
        self.tests = text.lines().filter_map(Test::of).collect();
        self.tests.retain(|test| present.contains(&(test.program.clone(), test.name.clone())));
        self.tests.sort_by_key(|test| test.took);
        let failing = text.lines().filter(|line| line.contains("\t-\t"));
        failing.for_each(|line| println!("fails without a mutant: {}", line.replace('\t', " ")));
        Ok(())
    }

    fn listed(&self, program: &str, args: &[&str]) -> io::Result<BTreeSet<String>> {
        let output = self.command(program).args(["--list"]).args(args).output()?;
        let listed = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(listed
            .lines()
            .filter_map(|line| Some(line.strip_suffix(": test")?.to_owned()))
            .collect())
    }

    fn command(&self, program: &str) -> std::process::Command {
        let folder =
            PROGRAMS.iter().find(|(name, _)| *name == program).map_or("tests", |found| found.1);
        let mut command =
            cargo::command(self.programs.get(program).map_or(Path::new(program), PathBuf::as_path));
        command
            .current_dir(self.tree.join(folder))
            .env("CARGO_MANIFEST_DIR", self.tree.join(folder));
        command.env("REDIS_SERVER", &self.redis).env("RUST_BACKTRACE", "0").stdin(Stdio::null());
        command
    }

    /// Runs tests of one program until one fails. The mutant 0 is none.
    fn run(
        &self,
        program: &str,
        names: &[&str],
        mutant: usize,
        bound: Duration,
        reached: Option<&Path>,
    ) -> End {
        let mut command = self.command(program);
        command.arg("--exact").args(names).args(["--test-threads", &THREADS.to_string()]);
        command
            .env("LOCK_MUTANT", mutant.to_string())
            .envs(reached.map(|file| ("LOCK_MUTANTS_REACHED", file)));
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else {
            return End::Failed(format!("{program} does not start"));
        };
        let (send, lines) = mpsc::channel();
        let output = child.stdout.take();
        thread::spawn(move || {
            let lines = output
                .into_iter()
                .flat_map(|output| BufReader::new(output).lines().map_while(Result::ok));
            lines.take_while(|line| send.send(line.clone()).is_ok()).for_each(drop);
        });
        let (clock, mut left) =
            (Stopwatch::start(), names.iter().copied().collect::<BTreeSet<_>>());
        let end = loop {
            let line = lines.recv_timeout(bound.saturating_sub(clock.elapsed()));
            let shown = || left.iter().take(3).copied().collect::<Vec<_>>().join(" or ");
            match line {
                Err(mpsc::RecvTimeoutError::Timeout) => break End::Hung(shown()),
                // It has ended without its last line.
                Err(mpsc::RecvTimeoutError::Disconnected) => break End::Failed(shown()),
                // Not its end, which servers that it has started may delay.
                Ok(line) if line.starts_with("test result: ok") => break End::Passed,
                Ok(line) if line.starts_with("test result: ") => break End::Failed(shown()),
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

    /// Runs the tests that reach a mutant, those before others that have caught some in its file, then the quickest.
    pub(super) fn judge(&self, mutant: usize, killers: &BTreeSet<(String, String)>) -> End {
        let reaching: Vec<&Test> =
            self.tests.iter().filter(|test| test.reached.contains(&mutant)).collect();
        let is_killer =
            |test: &&&Test| killers.contains(&(test.program.clone(), test.name.clone()));
        let mut queue: Vec<&Test> = reaching.iter().filter(is_killer).copied().collect();
        let others: Vec<&Test> = reaching.iter().filter(|test| !is_killer(test)).copied().collect();
        // Half of the time for the quickest, and the rest for some of all the others.
        let mut time = queue.iter().map(|test| test.took).sum::<Duration>();
        let quick = others.iter().take(MOST_TESTS / 2).take_while(|test| {
            time += test.took;
            time < LONGEST / 2
        });
        let quick = quick.count();
        queue.extend(&others[..quick]);
        let rest: Duration = others[quick..].iter().map(|test| test.took).sum();
        let by_time = rest.as_secs_f64() / LONGEST.saturating_sub(time).as_secs_f64().max(1.0);
        let by_number = (others.len() - quick) as f64 / (MOST_TESTS / 2) as f64;
        let step = by_time.max(by_number).max(1.0).ceil() as usize;
        queue.extend(others[quick..].iter().step_by(step));
        let mut size = 8;
        while !queue.is_empty() {
            let mut batch: Vec<&Test> = queue.drain(..queue.len().min(size)).collect();
            size *= 2;
            while let Some(first) = batch.first() {
                let program = &first.program;
                let same: Vec<_> = batch.iter().filter(|test| test.program == *program).collect();
                let names: Vec<&str> = same.iter().map(|test| test.name.as_str()).collect();
                let longest = same.iter().map(|test| test.took).max().unwrap_or_default();
                let sum: Duration = same.iter().map(|test| test.took).sum();
                let bound = (sum / THREADS + longest) * SLOWER + GRACE;
                match self.run(program, &names, mutant, bound, None) {
                    End::Passed => batch.retain(|test| test.program != *program),
                    End::Hung(name) => return End::Hung(format!("{program} {name}")),
                    // A test that fails without the mutant, too, says nothing about it.
                    End::Failed(name) => match self.run(program, &[&name], 0, bound, None) {
                        End::Failed(_) | End::Hung(_) if names.contains(&name.as_str()) => {
                            batch.retain(|test| test.program != *program || test.name != name);
                        }
                        _ => return End::Failed(format!("{program} {name}")),
                    },
                }
            }
        }
        End::Passed
    }

    pub(super) fn reaching(&self, mutant: usize) -> usize {
        self.tests.iter().filter(|test| test.reached.contains(&mutant)).count()
    }
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
