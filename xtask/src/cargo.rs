//! Running cargo from the root of the workspace, with its output on the terminal.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::Failure;

/// When the output of a step is on the terminal.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Shows {
    AtOnce,
    /// At once, and of tests that fail once more at the end.
    Tests,
    /// In one piece, so that it does not mix with that of other steps.
    AtTheEnd,
    /// In one piece, if the step fails.
    Failures,
}

/// One call of cargo.
#[derive(Debug)]
pub(crate) struct Step {
    command: Command,
    /// As one would type it.
    shown: String,
    shows: Shows,
}

impl Step {
    /// `cargo <subcommand>`.
    pub(crate) fn new(subcommand: &str) -> Self {
        Self::program(cargo(), "cargo").arg(subcommand)
    }

    /// A program that does what a subcommand of cargo does.
    pub(crate) fn program(program: impl AsRef<OsStr>, shown: &str) -> Self {
        let mut command = command(program);
        command.current_dir(workspace_root());
        Self { command, shown: shown.to_owned(), shows: Shows::AtOnce }
    }

    pub(crate) fn arg(mut self, arg: &str) -> Self {
        self.command.arg(arg);
        self.shown.push(' ');
        self.shown.push_str(arg);
        self
    }

    pub(crate) fn args<S: AsRef<str>>(self, args: &[S]) -> Self {
        args.iter().fold(self, |step, arg| step.arg(arg.as_ref()))
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        let value = value.as_ref();
        self.shown.insert_str(0, &format!("{name}={:?} ", value.display().to_string()));
        self.command.env(name, value);
        self
    }

    /// Repeats at the end what tests say of their failures.
    pub(crate) fn with_tests(mut self) -> Self {
        self.shows = Shows::Tests;
        self
    }

    /// Leaves processor time to others, and shows its output only if it fails.
    pub(crate) fn in_background(self) -> Self {
        self.with_niceness("19")
    }

    /// As [`in_background`](Self::in_background), at a higher priority than steps there.
    pub(crate) fn at_low_priority(self) -> Self {
        self.with_niceness("10")
    }

    fn with_niceness(mut self, niceness: &str) -> Self {
        if cfg!(unix) {
            let mut nice = command("nice");
            nice.args(["-n", niceness]);
            nice.arg(self.command.get_program()).args(self.command.get_args());
            nice.envs(self.command.get_envs().filter_map(|(name, value)| Some((name, value?))));
            nice.current_dir(workspace_root());
            self.command = nice;
        }
        self.shows = Shows::Failures;
        self
    }

    /// Shows the output also if the step succeeds, when it has ended.
    pub(crate) fn with_output(mut self) -> Self {
        self.shows = Shows::AtTheEnd;
        self
    }

    /// Runs it, and says what runs and how long that took.
    ///
    /// # Errors
    ///
    /// When it cannot be started, or fails; then with cargo's exit code.
    pub(crate) fn run(mut self) -> Result<(), Failure> {
        eprintln!("==> {}", self.shown);
        let clock = Stopwatch::start();
        let done = match self.shows {
            Shows::AtOnce => self.command.status().map(|status| Output {
                status,
                stdout: Vec::new(),
                stderr: Vec::new(),
            }),
            Shows::Tests => run_tests(&mut self.command),
            Shows::AtTheEnd | Shows::Failures => self.command.output(),
        };
        let shown = self.shown;
        let Output { status, stdout, stderr } =
            done.map_err(|error| Failure::message(format!("cannot run `{shown}`: {error}")))?;
        let was_shown = matches!(self.shows, Shows::AtOnce | Shows::Tests);
        if !was_shown && (!status.success() || self.shows == Shows::AtTheEnd) {
            for text in [&stdout, &stderr] {
                eprint!("{}", String::from_utf8_lossy(text));
            }
        }
        eprintln!("==> {:.0?} for {shown}", clock.elapsed());
        if status.success() {
            return Ok(());
        }
        let errors = match self.shows {
            Shows::Tests => String::from_utf8_lossy(&stdout).into_owned(),
            _ => errors_of(&stderr),
        };
        let message = format!("`{shown}` failed: {status}{errors}");
        Err(Failure { message, code: code_of(status) })
    }
}

/// Runs tests, and passes on what they print. Its output is what they say of their failures alone.
///
/// A test that hangs ends them all. Those that are slow are named at the end.
fn run_tests(command: &mut Command) -> io::Result<Output> {
    const LINES_OF_A_FAILURE: usize = 5;
    const MOST: usize = 100;
    // A group of their own, which can be ended as a whole: the end of cargo leaves the test programs running.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let (sender, printed) = mpsc::channel();
    let pipe = child.stdout.take();
    thread::spawn(move || {
        let mut lines = pipe.into_iter().flat_map(|pipe| BufReader::new(pipe).split(b'\n'));
        lines.all(|line| sender.send(line).is_ok())
    });
    let (mut failures, mut left, mut slow) = (Vec::new(), 0, SlowTests::default());
    loop {
        match printed.recv_timeout(Duration::from_secs(1)) {
            Ok(line) => {
                let line = String::from_utf8_lossy(&line?).into_owned();
                writeln!(io::stdout(), "{line}")?;
                slow.look_at(&line);
                if line.contains("panicked at") {
                    left = LINES_OF_A_FAILURE;
                }
                if left > 0 && failures.len() < MOST {
                    left -= 1;
                    failures.push(format!("\n  {line}"));
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                let Some(test) = slow.hangs() else { continue };
                failures.push(format!("\n  the test {test} has not ended in ten minutes"));
                let group = format!("-{}", child.id());
                self::command("kill").args(["-s", "KILL", "--", &group]).status()?;
                break;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    slow.ended.iter().for_each(|test| eprintln!("slow: {test}"));
    let stdout = failures.concat().into_bytes();
    Ok(Output { status: child.wait()?, stdout, stderr: Vec::new() })
}

/// The tests of which their program has said that they take more than a minute.
#[derive(Default)]
struct SlowTests {
    /// When that was said.
    running: Vec<(String, Stopwatch)>,
    /// With the time that they took.
    ended: Vec<String>,
}

impl SlowTests {
    const SAID_AFTER: Duration = Duration::from_secs(60);
    const LIMIT: Duration = Duration::from_secs(600);

    fn look_at(&mut self, line: &str) {
        // A new program, also if the last one was killed.
        if line.starts_with("running ") {
            self.running.clear();
        }
        let Some((test, says)) = line.strip_prefix("test ").and_then(|line| line.split_once(' '))
        else {
            return;
        };
        if says == "has been running for over 60 seconds" {
            self.running.push((test.to_owned(), Stopwatch::start()));
        } else if let Some(at) = self.running.iter().position(|(slow, _)| slow == test) {
            let took = Self::SAID_AFTER + self.running.remove(at).1.elapsed();
            self.ended.push(format!("{took:.0?} for {test}"));
        }
    }

    fn hangs(&self) -> Option<&str> {
        let mut running = self.running.iter();
        let hangs = running.find(|(_, since)| Self::SAID_AFTER + since.elapsed() > Self::LIMIT)?;
        Some(&hangs.0)
    }
}

/// What a step said of its failure, for the end of the output: where it was shown, much comes after it.
fn errors_of(stderr: &[u8]) -> String {
    const MOST: usize = 10;
    let stderr = String::from_utf8_lossy(stderr);
    let errors = stderr.lines().filter(|line| line.starts_with("error")).take(MOST);
    errors.map(|error| format!("\n  {error}")).collect()
}

/// A call of a program that does not see what cargo has told this one about its own package. Build scripts that look at these
/// variables would run again, and what depends on them be compiled again, whenever a person calls cargo in between.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        let told = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        });
        if told {
            command.env_remove(name);
        }
    }
    command
}

/// Sees to it that cargo has these components of the toolchain, with rustup's help where it is.
///
/// # Errors
///
/// When one is missing and cannot be added.
pub(crate) fn ensure_components(components: &[&str]) -> Result<(), Failure> {
    let is_there = |component: &str| {
        // The component `rustfmt` is the subcommand `fmt`; clippy has one name for both.
        let subcommand = component.strip_prefix("rust").unwrap_or(component);
        let mut command = Command::new(cargo());
        command.args([subcommand, "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    for component in components.iter().filter(|component| !is_there(component)) {
        let added = Command::new("rustup").args(["component", "add", component]).status();
        if !added.is_ok_and(|status| status.success()) || !is_there(component) {
            return Err(Failure::message(format!(
                "this needs {component}; with rustup: `rustup component add {component}`"
            )));
        }
    }
    Ok(())
}

/// The cargo that runs this, if it tells, so that all is done by one toolchain.
pub(crate) fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// A field of what the compiler says of itself: its `release`, or the `host` that it runs on.
///
/// # Errors
///
/// When rustc does not run, or does not say that.
pub(crate) fn rustc_says(field: &str) -> Result<String, Failure> {
    let output = Command::new("rustc").arg("-vV").current_dir(workspace_root()).output();
    let output = output.map_err(|error| Failure::message(format!("cannot run rustc: {error}")))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let mut fields = said.lines().filter_map(|line| line.split_once(": "));
    let value = fields.find_map(|(name, value)| (name == field).then(|| value.to_owned()));
    value.ok_or_else(|| Failure::message(format!("`rustc -vV` does not say its {field}: {said}")))
}

/// The directory above this package's.
pub(crate) fn workspace_root() -> OsString {
    let package =
        env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).parent().map_or(package.clone(), |root| root.as_os_str().to_owned())
}

/// Flags of the compiler for a release build that valgrind runs: they let `lock-runtime` make its short time limits longer, as
/// builds for tests do. A folder is for builds with them or without, or every change between the two builds everything again.
pub(crate) const FOR_VALGRIND: &str = "--cfg in_valgrind";

/// Where cargo builds.
pub(crate) fn build_folder() -> PathBuf {
    let root = PathBuf::from(workspace_root());
    root.join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

fn code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}

/// How long something takes, to be read by a person.
#[allow(clippy::disallowed_types)] // Decides nothing, and this package has no runtime.
pub(crate) struct Stopwatch(std::time::Instant);

#[allow(clippy::disallowed_types)]
impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(std::time::Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
