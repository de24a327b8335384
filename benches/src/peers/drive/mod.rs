//! The drivers in Rust: this program as a child of itself, which obeys the lines of its stdin as drivers in
//! other languages do (`benches/peers/README.md`).

mod kinds;

use std::io::{Stdin, stdin};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use lock_runtime::LockClient;
use rslock::LockManager;
use tokio::sync::Barrier;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use self::kinds::{Probe, ReadWrite};
use crate::Result;
use crate::peers::row::Work;
use crate::peers::trace::{self, Pair, Task, now};
use crate::server::contender::{Bare, Contender, Ours, OursFair, Peer, Ping};

/// The option that makes this program a driver.
pub(crate) const DRIVE: &str = "--drive";

/// Worker threads of the runtime, independent of the machine.
const WORKERS: usize = 2;

/// What a driver in Rust drives, and the server that it connects to. As text: `ours@127.0.0.1:6379`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Drive {
    who: String,
    server: String,
}

impl FromStr for Drive {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let Some((who, server)) = text.split_once('@') else {
            return Err("give a contender and a server, such as ours@127.0.0.1:6379".to_owned());
        };
        Ok(Self { who: who.to_owned(), server: server.to_owned() })
    }
}

impl Drive {
    /// The value of [`DRIVE`] in front of a server's address.
    pub(crate) fn of(who: &str) -> String {
        format!("{who}@")
    }

    /// Obeys the lines of stdin until it ends.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached, or a line is not understood.
    pub(crate) fn run(&self) -> Result<()> {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(WORKERS).enable_all().build()?;
        let connected = runtime.block_on(Connected::to(self))?;
        println!("peer\t{}\t{}", connected.version(), connected.settings());
        let lines = stdin();
        while let Some(line) = next_line(&lines)? {
            let turn = Turn::parse(&line).ok_or_else(|| format!("cannot read `{line}`"))?;
            let _context = runtime.enter();
            let Some(started) = connected.start(&turn) else {
                println!("no");
                continue;
            };
            println!("ready");
            if next_line(&lines)?.is_none() {
                return Ok(());
            }
            trace::write(Path::new(turn.file), &runtime.block_on(started.finish())?)?;
            println!("done");
        }
        Ok(())
    }
}

fn next_line(lines: &Stdin) -> Result<Option<String>> {
    let mut line = String::new();
    Ok((lines.read_line(&mut line)? > 0).then(|| line.trim().to_owned()))
}

/// The line `run ROW TASKS MILLIS HOLD KEY FILE`.
struct Turn<'a> {
    work: Work,
    tasks: usize,
    length: Duration,
    hold: Duration,
    key: &'a str,
    file: &'a str,
}

impl<'a> Turn<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split(' ').skip(1);
        Some(Self {
            work: Work::of(words.next()?)?,
            tasks: words.next()?.parse().ok()?,
            length: Duration::from_millis(words.next()?.parse().ok()?),
            hold: Duration::from_millis(words.next()?.parse().ok()?),
            key: words.next()?,
            file: words.next()?,
        })
    }

    /// The key of a task's lock.
    fn key_of(&self, task: usize) -> String {
        match self.work {
            Work::Own => format!("{}:{task}", self.key),
            Work::Hot | Work::Fair | Work::ReadWrite => self.key.to_owned(),
        }
    }
}

/// A contender that is connected to the server.
enum Connected {
    Ping(Bare),
    Floor(Bare),
    Ours(LockClient),
    Rslock(LockManager),
}

impl Connected {
    async fn to(drive: &Drive) -> Result<Self> {
        let url = format!("redis://{}", drive.server);
        match drive.who.as_str() {
            Ping::NAME => Ok(Self::Ping(Bare::connect(&url).await?)),
            Bare::NAME => Ok(Self::Floor(Bare::connect(&url).await?)),
            Ours::NAME => Ok(Self::Ours(LockClient::connect(&url).await?)),
            Peer::NAME => Ok(Self::Rslock(LockManager::new(vec![url]))),
            who => Err(format!("there is no contender `{who}`").into()),
        }
    }

    fn version(&self) -> &'static str {
        match self {
            Self::Ping(_) | Self::Floor(_) | Self::Ours(_) => env!("CARGO_PKG_VERSION"),
            Self::Rslock(_) => locked_version("rslock"),
        }
    }

    fn settings(&self) -> &'static str {
        match self {
            Self::Ping(_) => "the floor's connection",
            Self::Floor(_) => "the two scripts of a mutex of ours, sent bare over one connection",
            Self::Ours(_) => {
                "one connection; default options: 30 s watchdog, waits for notifications, fencing \
                 tokens; tokio with 2 worker threads"
            }
            Self::Rslock(_) => {
                "one connection; default options: up to 200 ms between tries; leases of 30 s; \
                 tokio with 2 worker threads"
            }
        }
    }

    /// Makes the tasks, which wait; `None` for work that the contender has no lock for.
    fn start(&self, turn: &Turn<'_>) -> Option<Started> {
        let start = Started::new(turn);
        Some(match (self, turn.work) {
            (Self::Ping(bare), Work::Own) => start.tasks(|_| Ping(bare.clone())),
            (Self::Floor(bare), Work::Hot) => start.tasks(|_| Probe(bare.on(turn.key))),
            (Self::Floor(bare), Work::Own) => start.tasks(|task| bare.on(&turn.key_of(task))),
            (Self::Ping(_) | Self::Floor(_), _) | (Self::Rslock(_), Work::Fair) => return None,
            (Self::Rslock(manager), _) => {
                start.tasks(|task| Peer::new(manager.clone(), turn.key_of(task)))
            }
            (Self::Ours(client), Work::Own | Work::Hot) => {
                start.tasks(|task| Ours::new(client.mutex(turn.key_of(task))))
            }
            (Self::Ours(client), Work::Fair) => {
                start.tasks(|_| OursFair::new(client.fair_mutex(turn.key)))
            }
            (Self::Ours(client), Work::ReadWrite) => {
                start.tasks(|task| ReadWrite::new(client.rw_lock(turn.key), task))
            }
        })
    }
}

/// The version of a crate that this program was built with.
fn locked_version(name: &str) -> &'static str {
    let lock = include_str!("../../../../Cargo.lock");
    let (_, rest) =
        lock.split_once(&format!("name = \"{name}\"\nversion = \"")).unwrap_or_default();
    rest.split('"').next().unwrap_or_default()
}

/// Tasks that wait for their common start.
struct Started {
    start: Arc<Barrier>,
    count: usize,
    length: u64,
    hold: Duration,
    tasks: Vec<JoinHandle<Task>>,
}

impl Started {
    fn new(turn: &Turn<'_>) -> Self {
        let start = Arc::new(Barrier::new(turn.tasks + 1));
        let length = u64::try_from(turn.length.as_nanos()).unwrap_or(u64::MAX);
        Self { start, count: turn.tasks, length, hold: turn.hold, tasks: Vec::new() }
    }

    fn tasks<C: Contender>(mut self, lock: impl Fn(usize) -> C) -> Self {
        for task in 0..self.count {
            let (start, lock) = (Arc::clone(&self.start), lock(task));
            let (length, hold) = (self.length, self.hold);
            self.tasks.push(tokio::spawn(async move {
                start.wait().await;
                repeat(lock, now() + length, hold).await
            }));
        }
        self
    }

    async fn finish(self) -> Result<Vec<Task>> {
        self.start.wait().await;
        let mut tasks = Vec::new();
        for task in self.tasks {
            tasks.push(task.await?);
        }
        Ok(tasks)
    }
}

/// Acquires and releases the lock until the time is over.
async fn repeat<C: Contender>(mut lock: C, end: u64, hold_for: Duration) -> Task {
    let mut task = Task::default();
    let mut asked = now();
    while asked < end {
        let Ok(hold) = lock.take().await else {
            task.failures += 1;
            asked = now();
            continue;
        };
        let held = now();
        let releasing = if hold_for.is_zero() {
            held
        } else {
            sleep(hold_for).await;
            now()
        };
        if lock.give(hold).await.is_err() {
            task.failures += 1;
        }
        let released = now();
        task.pairs.push(Pair { asked, held, releasing, released });
        asked = released;
    }
    task
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let turn = Turn::parse("run own 64 250 1 ours:own /tmp/turn").unwrap();
        assert_eq!(
            (turn.work, turn.tasks, turn.length),
            (Work::Own, 64, Duration::from_millis(250))
        );
        assert_eq!((turn.key_of(3).as_str(), turn.file), ("ours:own:3", "/tmp/turn"));
        assert_eq!(turn.hold, Duration::from_millis(1));
        for word in ["hot", "fair", "read-write"] {
            let line = format!("run {word} 64 250 1 ours:shared /tmp/turn");
            assert_eq!(Turn::parse(&line).unwrap().key_of(3), "ours:shared", "{word}");
        }
        assert!(Turn::parse("run pears 64 250 0 key /tmp/turn").is_none());
        let drive: Drive = "ours@127.0.0.1:6379".parse().unwrap();
        assert_eq!((drive.who.as_str(), drive.server.as_str()), ("ours", "127.0.0.1:6379"));
        assert!("ours".parse::<Drive>().is_err());
    }

    #[test]
    fn the_version_of_a_crate_is_known() {
        assert!(locked_version("rslock").starts_with("0."));
    }
}
