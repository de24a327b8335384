//! This library beside the bare commands and other lock libraries, each in processes of its own, on one server, in turns.
//!
//! `benches/peers` has the drivers of the peers and the protocol that all drivers speak.

mod compare;
mod drive;
mod process;
mod row;
mod sample;
mod target;
mod trace;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use lock_tests::RedisServer;

use self::compare::Comparison;
use self::drive::DRIVE;
pub(crate) use self::drive::drive;
use self::process::Program;
pub(crate) use self::row::Row;
use self::row::Work;
use crate::args::Plan;
use crate::record::Record;
use crate::{Result, report};

/// Measures the rows of a plan. Returns the figures, and a line for each contender.
///
/// # Errors
///
/// When this library fails or breaks exclusion.
pub(crate) async fn run(plan: &Plan, server: &RedisServer) -> Result<(Vec<Record>, Vec<String>)> {
    let mut comparison = Comparison::start(plan, server).await?;
    let mut records = Vec::new();
    for row in &plan.rows {
        eprintln!("measuring {row} …");
        let figures = comparison.measure(*row, plan.timing).await?;
        records.extend(target::with_targets(*row, figures));
    }
    records.extend(target::of_queues(&records));
    Ok((records, comparison.finish().await))
}

/// A contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Contender {
    /// As in the report and after `--peer`.
    pub(crate) name: &'static str,
    language: Language,
    /// What it is asked for beside [`Work::Own`].
    work: &'static [Work],
    /// Whether its read/write locks admit readers together; others acquire a mutex in place of one.
    shares_reads: bool,
}

/// What a driver is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    Rust,
    /// Its compilers have to see each kind of work before they are fast.
    Java,
    Other,
}

/// The most tasks of a process outside Rust: Redisson needs a thread for each.
const MOST_TASKS: usize = 512;

const MUTEX: &[Work] = &[Work::Hot, Work::ReadWrite];
const ALL_KINDS: &[Work] = &[Work::Hot, Work::Fair, Work::ReadWrite];

impl Contender {
    /// The bare scripts.
    const FLOOR: Self = Self::new("floor", Language::Rust, &[]);

    /// The round trip, the floor and this library, then the peers.
    pub(crate) const ALL: [Self; 9] = [
        Self::new("PING", Language::Rust, &[]),
        Self::FLOOR,
        Self { shares_reads: true, ..Self::new("ours", Language::Rust, ALL_KINDS) },
        Self::new("rslock", Language::Rust, MUTEX),
        Self { shares_reads: true, ..Self::new("Redisson", Language::Java, ALL_KINDS) },
        Self::new("redsync", Language::Other, MUTEX),
        Self::new("rueidislock", Language::Other, MUTEX),
        Self::new("node-redlock", Language::Other, MUTEX),
        Self::new("redis-py", Language::Other, MUTEX),
    ];

    const fn new(name: &'static str, language: Language, work: &'static [Work]) -> Self {
        Self { name, language, work, shares_reads: false }
    }

    /// The contender of this name.
    pub(crate) fn named(name: &str) -> std::result::Result<Self, String> {
        let names = Self::ALL.map(|contender| contender.name).join(", ");
        let found = Self::ALL.into_iter().find(|contender| contender.name == name);
        found.ok_or_else(|| format!("there is no such contender; expected one of: {names}"))
    }

    /// Whether this is the round trip, the floor or this library: in every comparison.
    pub(crate) fn is_always_there(&self) -> bool {
        ["PING", "floor", "ours"].contains(&self.name)
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.language == Language::Rust
    }

    /// Whether it has a lock for the work of this row, and can have so many tasks.
    fn does(&self, row: Row) -> bool {
        let limit = if self.is_rust() { usize::MAX } else { MOST_TASKS };
        row.tasks <= limit && (row.work == Work::Own || self.work.contains(&row.work))
    }

    /// How long it warms up at each kind of work.
    fn warm_up(&self) -> Duration {
        Duration::from_millis(if self.language == Language::Java { 1500 } else { 300 })
    }

    /// Builds its driver below the folder that cargo builds in. Returns how it is started for a server.
    fn build(&self, server: &str) -> Result<Program> {
        if self.is_rust() {
            let args = vec![DRIVE.to_owned(), format!("{}@{server}", self.name)];
            return Ok((std::env::current_exe()?.into(), args));
        }
        let name = self.name.to_lowercase();
        let out = report::target().join("peers").join(&name);
        fs::create_dir_all(&out)?;
        let out = out.canonicalize()?.display().to_string();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/driver.sh");
        let script = script.display().to_string();
        let mut build = Command::new("sh");
        build.args([&script, "build", &name, &out]).stdin(Stdio::null()).stdout(Stdio::null());
        match build.status()? {
            status if status.success() => {
                Ok(("sh".into(), vec![script, "run".to_owned(), name, out, server.to_owned()]))
            }
            status => Err(format!("its driver cannot be built: {status}").into()),
        }
    }
}
