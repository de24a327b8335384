//! The drivers in Rust: this program as a child of itself, which obeys the lines of its stdin as drivers in
//! other languages do (`benches/peers/README.md`).

use std::io::stdin;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lock_runtime::LockClient;
use rslock::LockManager;
use tokio::sync::Barrier;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::row::Work;
use super::trace::{self, Pair, Task, now};
use crate::contender::{Bare, Contender, Ours, Peer, Ping, Probe};
use crate::{Result, runtime};

/// The option that makes this program a driver.
pub(super) const DRIVE: &str = "--drive";

/// Drives a contender that is connected to a server, such as `ours@127.0.0.1:6379`, until stdin ends.
///
/// # Errors
///
/// When the server cannot be reached, or a line is not understood.
pub(crate) fn drive(who: &str) -> Result<()> {
    let runtime = runtime()?;
    let (name, server) = who.split_once('@').ok_or("give a contender and a server")?;
    let connected = runtime.block_on(Connected::to(name, format!("redis://{server}")))?;
    let (version, settings) = connected.about();
    println!("peer\t{version}\t{settings}");
    let mut lines = stdin().lines();
    while let Some(line) = lines.next() {
        let line = line?;
        let words: Vec<_> = line.split(' ').collect();
        let [_, work, tasks, millis, hold, key, file] = words[..] else {
            return Err(format!("cannot read `{line}`").into());
        };
        let turn = Turn {
            work: Work::of(work).ok_or("there is no such row")?,
            tasks: tasks.parse()?,
            length: millis.parse::<u64>()? * 1_000_000,
            hold: Duration::from_millis(hold.parse()?),
            key,
            start: Arc::new(Barrier::new(tasks.parse::<usize>()? + 1)),
        };
        let _context = runtime.enter();
        let Some(tasks) = connected.start(&turn) else {
            println!("no");
            continue;
        };
        println!("ready");
        if lines.next().is_none() {
            return Ok(());
        }
        let done = runtime.block_on(async {
            turn.start.wait().await;
            let mut done = Vec::new();
            for task in tasks {
                done.push(task.await?);
            }
            Result::Ok(done)
        });
        trace::write(Path::new(file), &done?)?;
        println!("done");
    }
    Ok(())
}

/// The line `run ROW TASKS MILLIS HOLD KEY FILE`.
struct Turn<'a> {
    work: Work,
    tasks: usize,
    /// In nanoseconds.
    length: u64,
    hold: Duration,
    key: &'a str,
    /// Where the tasks wait for their common start.
    start: Arc<Barrier>,
}

impl Turn<'_> {
    /// The key of a task's lock.
    fn key_of(&self, task: usize) -> String {
        if self.work == Work::Own { format!("{}:{task}", self.key) } else { self.key.to_owned() }
    }

    /// Makes the tasks, which wait.
    fn tasks<C: Contender>(&self, lock: impl Fn(usize) -> C) -> Vec<JoinHandle<Task>> {
        let (length, hold) = (self.length, self.hold);
        let task = |task| {
            let (start, lock) = (Arc::clone(&self.start), lock(task));
            tokio::spawn(async move {
                start.wait().await;
                repeat(lock, now() + length, hold).await
            })
        };
        (0..self.tasks).map(task).collect()
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
    async fn to(name: &str, url: String) -> Result<Self> {
        match name {
            "PING" => Ok(Self::Ping(Bare::connect(&url).await?)),
            "floor" => Ok(Self::Floor(Bare::connect(&url).await?)),
            "ours" => Ok(Self::Ours(LockClient::connect(&url).await?)),
            "rslock" => Ok(Self::Rslock(LockManager::new(vec![url]))),
            _ => Err(format!("there is no contender `{name}`").into()),
        }
    }

    /// Its version, and its settings.
    fn about(&self) -> (&'static str, &'static str) {
        let ours = env!("CARGO_PKG_VERSION");
        match self {
            Self::Ping(_) => (ours, "the floor's connection"),
            Self::Floor(_) => {
                (ours, "the two scripts of a mutex of ours, sent bare over one connection")
            }
            Self::Ours(_) => (
                ours,
                "one connection; default options: 30 s watchdog, waits for notifications, fencing tokens; tokio with 2 \
                 worker threads",
            ),
            Self::Rslock(_) => {
                let lock = include_str!("../../../Cargo.lock");
                let version =
                    lock.split("name = \"rslock\"\nversion = \"").nth(1).unwrap_or_default();
                (
                    version.split('"').next().unwrap_or_default(),
                    "one connection; default options: up to 200 ms between tries; leases of 30 s; tokio with 2 worker threads",
                )
            }
        }
    }

    /// Makes the tasks; `None` for work that the contender has no lock for.
    fn start(&self, turn: &Turn<'_>) -> Option<Vec<JoinHandle<Task>>> {
        Some(match (self, turn.work) {
            (Self::Ping(bare), Work::Own) => turn.tasks(|_| Ping(bare.clone())),
            (Self::Floor(bare), Work::Hot) => turn.tasks(|_| Probe(bare.on(turn.key))),
            (Self::Floor(bare), Work::Own) => turn.tasks(|task| bare.on(&turn.key_of(task))),
            (Self::Ping(_) | Self::Floor(_), _) | (Self::Rslock(_), Work::Fair) => return None,
            (Self::Rslock(manager), _) => {
                turn.tasks(|task| Peer::new(manager.clone(), turn.key_of(task)))
            }
            (Self::Ours(client), work) => turn.tasks(|task| match work {
                Work::Own | Work::Hot => Ours::Mutex(client.mutex(turn.key_of(task))),
                Work::Fair => Ours::Fair(client.fair_mutex(turn.key)),
                Work::ReadWrite => Ours::ReadWrite(client.rw_lock(turn.key), task, 0),
            }),
        })
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
