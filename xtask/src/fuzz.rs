//! `cargo xtask fuzz`: the fuzz targets, driven by libFuzzer.

#[allow(unreachable_pub, reason = "public where it belongs")]
#[path = "../../fuzz/src/corpus.rs"]
mod corpus;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Failure;
use crate::cargo::{self, Step};

/// How long each target runs if `--for` does not say it.
const USUAL: Duration = Duration::from_secs(10);

/// The instrumentation by which libFuzzer sees which code an input reaches. All of these are options of a stable
/// compiler; without a sanitizer nothing else is needed, since the workspace has no unsafe code.
const INSTRUMENTED: &str = "--cfg fuzzing --cfg fuzzing_libfuzzer -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Where the corpora are, seen from the root of the workspace.
const CORPORA: &str = "fuzz/corpus";

/// The arguments of the command.
struct Plan {
    time: Duration,
    /// All targets if it is empty.
    targets: Vec<String>,
}

/// What libFuzzer reports of one target.
#[derive(Default)]
struct Report {
    inputs: u64,
    inputs_a_second: u64,
    /// How many inputs the corpus has now.
    corpus: usize,
    /// The first lines about a failure.
    failure: Vec<String>,
}

/// Runs the targets one after the other, prints how many inputs each tried, and keeps inputs that reach new code in
/// the corpus.
///
/// # Errors
///
/// When an argument is unknown, a target cannot be built, or a law does not hold; then the input is in the corpus too,
/// and `cargo test -p lock-fuzz` fails with it until the law holds.
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    let plan = Plan::parse(args)?;
    let program = build()?;
    let known = known_targets(&program)?;
    if let Some(unknown) = plan.targets.iter().find(|target| !known.contains(target)) {
        let known = known.join(", ");
        return Err(Failure::message(format!("there is no target `{unknown}`, only {known}")));
    }
    let targets = if plan.targets.is_empty() { &known } else { &plan.targets };
    let mut failed = Vec::new();
    let mut inputs = 0;
    for target in targets {
        let (held, report) = fuzz(&program, target, plan.time)?;
        let Report { inputs: tried, inputs_a_second, corpus, failure } = report;
        println!(
            "{target:16} {tried:>10} inputs, {inputs_a_second:>8} a second, corpus {corpus:>4}"
        );
        inputs += tried;
        if !held {
            failure.iter().for_each(|line| println!("    {line}"));
            failed.push(target.as_str());
        }
    }
    println!("fuzz: {} targets, {inputs} inputs, {} failed", targets.len(), failed.len());
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::message(format!(
            "the laws of {} do not hold; the inputs are in {CORPORA}",
            failed.join(", ")
        ))),
    }
}

impl Plan {
    fn parse(args: &[String]) -> Result<Self, Failure> {
        let mut plan = Self { time: USUAL, targets: Vec::new() };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            if arg == "--for" {
                let time = args.next().and_then(|time| duration(time));
                let wrong = || Failure::message("`--for` takes a time such as `60s` or `5m`");
                plan.time = time.ok_or_else(wrong)?;
            } else if arg.starts_with('-') {
                return Err(Failure::message(format!("`fuzz` takes no `{arg}`")));
            } else {
                plan.targets.push(arg.clone());
            }
        }
        Ok(plan)
    }
}

fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.len().checked_sub(1)?);
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        _ => return None,
    };
    let seconds = number.parse::<u64>().ok()?.checked_mul(unit)?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// Builds the test program with libFuzzer in it, in a folder of its own, and returns its path.
fn build() -> Result<PathBuf, Failure> {
    let folder = cargo::build_folder().join("fuzz");
    let host = host()?;
    // With a target named, build scripts and macros are compiled without the instrumentation.
    let args = &["--package=lock-fuzz", "--test=targets", "--profile=fuzz", "--no-run"];
    let step = Step::new("test").args(args).args(&["--target", &host]);
    let step = step.env("RUSTFLAGS", INSTRUMENTED).env("CARGO_TARGET_DIR", &folder);
    step.run()?;
    let programs = folder.join(&host).join("fuzz").join("deps");
    let newest = fs::read_dir(&programs).ok().into_iter().flatten().flatten().filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with("targets-") && !name.contains('.')
    });
    let newest = newest.max_by_key(|entry| entry.metadata().and_then(|data| data.modified()).ok());
    let missing = || Failure::message(format!("no test program in {}", programs.display()));
    newest.map(|entry| entry.path()).ok_or_else(missing)
}

/// The platform that the compiler builds for.
fn host() -> Result<String, Failure> {
    let output = Command::new(cargo::cargo()).arg("-vV").output();
    let output = output.map_err(|error| Failure::message(format!("cannot run cargo: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Failure::message("cargo does not name its platform"))
}

/// The targets are the tests of the program.
fn known_targets(program: &Path) -> Result<Vec<String>, Failure> {
    let output = Command::new(program).arg("--list").output();
    let output = output.map_err(|error| Failure::message(format!("cannot list: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

/// Runs one target; true if its law held.
fn fuzz(program: &Path, target: &str, time: Duration) -> Result<(bool, Report), Failure> {
    let packed = Path::new(&cargo::workspace_root()).join(CORPORA).join(target);
    let packed = packed.with_extension("txt");
    let folder = cargo::build_folder().join("fuzz").join("work").join(target);
    let failed = |error| Failure::message(format!("cannot fuzz {target}: {error}"));
    unpack(&packed, &folder).map_err(failed)?;
    // Without counters, the corpus keeps one input for each piece of code that it reaches, not one for each number of
    // times: a small corpus is one that a repository can keep. Bolero separates the arguments by spaces.
    let seconds = time.as_secs();
    let args = format!(
        "corpus -max_total_time={seconds} -max_len=4096 -timeout=5 -rss_limit_mb=1024 \
         -use_counters=0 -reduce_inputs=1 -print_final_stats=1 -artifact_prefix=corpus/"
    );
    let mut command = Command::new(program);
    command.args([target, "--exact", "--nocapture", "--quiet", "--test-threads=1"]);
    command.env("BOLERO_LIBFUZZER_ARGS", args).env("RUST_BACKTRACE", "0").current_dir(&folder);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let mut report = Report::default();
    let output = child.stderr.take().map(BufReader::new);
    for line in output.into_iter().flat_map(|lines| lines.split(b'\n')) {
        report.read(String::from_utf8_lossy(&line.map_err(failed)?).into_owned());
    }
    let status = child.wait().map_err(failed)?;
    report.corpus = pack(&folder, &packed).map_err(failed)?;
    Ok((status.success(), report))
}

/// Writes the inputs of a corpus into the folder `corpus` of an empty `folder`, a file each.
fn unpack(packed: &Path, folder: &Path) -> io::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    let files = folder.join("corpus");
    fs::create_dir_all(&files)?;
    for (number, input) in corpus::read(packed)?.iter().enumerate() {
        fs::write(files.join(number.to_string()), input)?;
    }
    Ok(())
}

/// Writes these files, with the inputs that failed, as a corpus, and returns how many there are.
fn pack(folder: &Path, packed: &Path) -> io::Result<usize> {
    let mut inputs = BTreeSet::new();
    for file in fs::read_dir(folder.join("corpus"))? {
        inputs.insert(fs::read(file?.path())?);
    }
    let count = inputs.len();
    corpus::write(packed, inputs)?;
    Ok(count)
}

impl Report {
    /// How many lines of a failure are shown.
    const SHOWN: usize = 6;

    fn read(&mut self, line: String) {
        let number = |field: &str| -> Option<u64> {
            line.strip_prefix("stat::")?.strip_prefix(field)?.strip_prefix(':')?.trim().parse().ok()
        };
        if let Some(inputs) = number("number_of_executed_units") {
            self.inputs = inputs;
        } else if let Some(rate) = number("average_exec_per_sec") {
            self.inputs_a_second = rate;
        }
        let describes = line.starts_with("panicked at") || line.contains("ERROR: libFuzzer");
        let goes_on = (1..Self::SHOWN).contains(&self.failure.len());
        if describes || goes_on {
            self.failure.push(line);
        }
    }
}
