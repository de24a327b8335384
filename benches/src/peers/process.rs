//! The processes of a contender, which obey line by line.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use lock_tests::Worker;

use super::row::Work;
use super::trace::{self, Task};
use crate::Result;

/// How long a driver may take to connect: a JVM on a busy machine takes seconds.
const START: Duration = Duration::from_secs(60);

/// How long the tasks of a turn may take to finish after its end.
const DRAIN: Duration = Duration::from_secs(60);

/// How long processes may take to end.
const END: Duration = Duration::from_secs(10);

/// What tasks are to do in one turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order<'a> {
    pub(super) work: Work,
    pub(super) key: &'a str,
    pub(super) tasks: usize,
    pub(super) length: Duration,
    /// How long a task sleeps while it holds the lock.
    pub(super) hold: Duration,
}

/// A program and its arguments.
pub(super) type Program = (OsString, Vec<String>);

/// Drivers of one contender, each a process of its own.
#[derive(Debug)]
pub(super) struct Processes {
    workers: Vec<Worker>,
    /// Version and settings.
    pub(super) settings: String,
}

impl Processes {
    /// Starts so many processes, which connect to the server.
    ///
    /// # Errors
    ///
    /// When one does not report that it is connected.
    pub(super) async fn start((program, args): &Program, count: usize) -> Result<Self> {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut workers: Vec<_> = (0..count).map(|_| Worker::spawn(program, &args, &[])).collect();
        let mut settings = String::new();
        for worker in &mut workers {
            let line = worker.try_next_line(START).await.ok_or("the driver did not start")?;
            settings = line.trim_start_matches("peer\t").replace('\t', ": ");
        }
        Ok(Self { workers, settings })
    }

    /// The process ids.
    pub(super) fn ids(&self, count: usize) -> impl Iterator<Item = u32> {
        self.workers.iter().take(count).map(Worker::id)
    }

    /// Has so many processes do the work at the same time. Returns what the tasks of each did, or `None` if the
    /// contender has no lock for this work.
    ///
    /// # Errors
    ///
    /// When a process ends, or its tasks do not.
    pub(super) async fn run(
        &mut self,
        count: usize,
        order: Order<'_>,
    ) -> Result<Option<Vec<Vec<Task>>>> {
        let folder = turn_folder()?;
        let file = |process: usize| folder.path().join(process.to_string());
        let workers = self.workers.get_mut(..count).ok_or("there are not so many processes")?;
        for (number, worker) in workers.iter_mut().enumerate() {
            let Order { work, key, tasks, length, hold } = order;
            let (millis, hold, file) = (length.as_millis(), hold.as_millis(), file(number));
            worker.send(&format!(
                "run {} {tasks} {millis} {hold} {key} {}",
                work.word(),
                file.display()
            ));
            match worker.try_next_line(START).await.as_deref() {
                Some("ready") => {}
                Some("no") => return Ok(None),
                Some(line) => return Err(format!("a driver wrote `{line}`").into()),
                None => return Err("a driver ended".into()),
            }
        }
        workers.iter_mut().for_each(|worker| worker.send("go"));
        for worker in workers.iter_mut() {
            let done = worker.try_next_line(order.length + DRAIN).await;
            if done.as_deref() != Some("done") {
                return Err("tasks wait for a lock that is free, or a driver ended".into());
            }
        }
        let read = (0..count).map(|process| trace::read(Path::new(&file(process))));
        Ok(Some(read.collect::<Result<_>>()?))
    }

    /// Ends the processes.
    pub(super) async fn end(mut self) {
        for worker in &mut self.workers {
            worker.wait(END).await;
        }
    }
}

/// A folder in memory, where there is such a place: no contender is to wait for a disk.
fn turn_folder() -> Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    Ok(tempfile::Builder::new().prefix("lock-benches-").tempdir_in(place)?)
}
