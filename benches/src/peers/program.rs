//! The contenders of a run, and how their drivers are built: each by the tools of its language, below the
//! folder that cargo builds in.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::drive::{DRIVE, Drive};
use super::row::{Row, Work};
use crate::Result;
use crate::folder;

/// How long programs warm up that are compiled before they run.
const WARM_UP: Duration = Duration::from_millis(300);

/// How long a JVM warms up at each kind of work, so that its compilers have seen it.
const JVM_WARM_UP: Duration = Duration::from_millis(1500);

/// The most tasks of a process outside Rust: Redisson needs a thread for each.
const MOST_TASKS: usize = 512;

/// A contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Contender {
    /// As in the report and after `--peer`.
    pub(crate) name: &'static str,
    /// What its driver is written in.
    language: Language,
    /// What it is asked for beside [`Work::Own`].
    work: &'static [Work],
    /// Whether its read/write locks admit readers together; others acquire a mutex in place of one.
    pub(crate) shares_reads: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    Rust,
    Java,
    Go,
    JavaScript,
    Python,
}

const MUTEX: &[Work] = &[Work::Hot, Work::ReadWrite];
const ALL_KINDS: &[Work] = &[Work::Hot, Work::Fair, Work::ReadWrite];

impl Contender {
    /// The round trip.
    const PING: Self = Self::new("PING", Language::Rust, &[]);

    /// The bare scripts.
    pub(crate) const FLOOR: Self = Self::new("floor", Language::Rust, &[]);

    /// The round trip, the floor and this library, then the peers.
    pub(crate) const ALL: [Self; 9] = [
        Self::PING,
        Self::FLOOR,
        Self { shares_reads: true, ..Self::new("ours", Language::Rust, ALL_KINDS) },
        Self::new("rslock", Language::Rust, MUTEX),
        Self { shares_reads: true, ..Self::new("Redisson", Language::Java, ALL_KINDS) },
        Self::new("redsync", Language::Go, MUTEX),
        Self::new("rueidislock", Language::Go, MUTEX),
        Self::new("node-redlock", Language::JavaScript, MUTEX),
        Self::new("redis-py", Language::Python, MUTEX),
    ];

    const fn new(name: &'static str, language: Language, work: &'static [Work]) -> Self {
        Self { name, language, work, shares_reads: false }
    }

    /// Whether this is the round trip, the floor or this library: in every comparison.
    pub(crate) fn is_ours(name: &str) -> bool {
        ["PING", "floor", "ours"].contains(&name)
    }

    /// Whether it has a lock for the work of this row, and can have so many tasks.
    pub(crate) fn does(&self, row: Row) -> bool {
        let limit = if self.language == Language::Rust { usize::MAX } else { MOST_TASKS };
        row.tasks <= limit && (row.work == Work::Own || self.work.contains(&row.work))
    }

    /// How long it warms up at each kind of work.
    pub(crate) fn warm_up(&self) -> Duration {
        if self.language == Language::Java { JVM_WARM_UP } else { WARM_UP }
    }

    /// Builds its driver.
    ///
    /// # Errors
    ///
    /// When a tool is missing, or the build fails.
    pub(crate) fn build(&self) -> Result<Program> {
        let source =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(self.name.to_lowercase());
        let out = folder::target().join("peers").join(self.name.to_lowercase());
        if self.language != Language::Rust {
            fs::create_dir_all(&out)?;
        }
        // Tools that run in another folder need the whole path.
        let out = out.canonicalize().unwrap_or(out);
        match self.language {
            Language::Rust => {
                let program = Program::new(std::env::current_exe()?).arg(DRIVE);
                Ok(Program { before_server: Drive::of(self.name), ..program })
            }
            Language::Java => java(&source, &out),
            Language::Go => go(&source, &out),
            Language::JavaScript => javascript(&source, &out),
            Language::Python => python(&source, &out),
        }
    }
}

/// How a driver is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) path: OsString,
    pub(crate) args: Vec<String>,
    pub(crate) envs: Vec<(&'static str, String)>,
    /// Stands before the server's address in the last argument.
    pub(crate) before_server: String,
}

impl Program {
    fn new(path: impl Into<OsString>) -> Self {
        Self { path: path.into(), args: Vec::new(), envs: Vec::new(), before_server: String::new() }
    }

    fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }
}

fn java(source: &Path, out: &Path) -> Result<Program> {
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode", "--file"]).arg(source.join("pom.xml"));
    maven.arg(format!("-Dout={}", out.display())).arg("process-classes");
    done(&mut maven)?;
    let dependencies = fs::read_to_string(out.join("dependencies"))?;
    let java = std::env::var_os("JAVA_HOME")
        .map_or_else(|| PathBuf::from("java"), |home| Path::new(&home).join("bin/java"));
    let program = Program::new(java).arg("-Xmx512m");
    let program = program.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn").arg("-classpath");
    Ok(program
        .arg(format!("{}:{}", out.join("classes").display(), dependencies.trim()))
        .arg("peer.Driver"))
}

fn go(source: &Path, out: &Path) -> Result<Program> {
    let binary = out.join("driver");
    let mut go = Command::new("go");
    done(go.args(["build", "-trimpath", "-o"]).arg(&binary).arg(".").current_dir(source))?;
    Ok(Program::new(binary))
}

fn javascript(source: &Path, out: &Path) -> Result<Program> {
    for file in ["package.json", "driver.js"] {
        fs::copy(source.join(file), out.join(file))?;
    }
    install(&source.join("package-lock.json"), out, || {
        done(Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(out))
    })?;
    Ok(Program::new("node").arg(out.join("driver.js").display().to_string()))
}

fn python(source: &Path, out: &Path) -> Result<Program> {
    let packages = out.join("packages");
    let requirements = source.join("requirements.txt");
    install(&requirements, out, || {
        let _ = fs::remove_dir_all(&packages);
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--target"]).arg(&packages);
        done(pip.arg("--requirement").arg(&requirements))
    })?;
    let program = Program::new("python3").arg(source.join("driver.py").display().to_string());
    Ok(Program { envs: vec![("PYTHONPATH", packages.display().to_string())], ..program })
}

/// Installs packages unless those of this very list are there.
fn install(list: &Path, out: &Path, run: impl FnOnce() -> Result<()>) -> Result<()> {
    let installed = out.join(list.file_name().unwrap_or_default());
    let wanted = fs::read(list)?;
    if out.join("installed").exists() && fs::read(&installed).is_ok_and(|it| it == wanted) {
        return Ok(());
    }
    let _ = fs::remove_file(out.join("installed"));
    fs::write(&installed, wanted)?;
    run()?;
    Ok(fs::write(out.join("installed"), "")?)
}

/// Runs a tool, whose output is shown only if it fails.
fn done(command: &mut Command) -> Result<()> {
    let tool = command.get_program().display().to_string();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("`{tool}` cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    for text in [output.stdout, output.stderr] {
        eprint!("{}", String::from_utf8_lossy(&text));
    }
    Err(format!("`{tool}` failed: {}", output.status).into())
}
