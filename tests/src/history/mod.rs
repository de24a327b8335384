//! What every process did and when, and the rules that must have held.
//!
//! Each process [records](Recorder) its events in a file of its own, one line each, with times of
//! the one clock that all processes of a machine share. Afterwards the [`History`] of all files is
//! swept for what must never have happened: two claims of one lock at a time, a fencing token that
//! is not greater than an earlier one, an effect outside the claim that was to protect it.
//!
//! A *claim* lasts from when the holder knew that it had the lock until it asked for the release,
//! reported the loss, passed the hold's own deadline, or was killed, whichever came first. That is
//! less than the store saw, so correct holds never overlap, whatever was delayed in between.

mod check;
mod event;
mod sides;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

pub use check::{Claim, Violation};
pub use event::{Event, MalformedEvent, Op, Stamp};

/// What the names of recorders' files end in.
const EXTENSION: &str = "events";

/// Writes down the events of one process.
///
/// Each event is one write to the file, so that a kill loses none that was recorded before it.
#[derive(Debug)]
pub struct Recorder {
    process: u32,
    file: Mutex<File>,
}

impl Recorder {
    /// Records into a file of this process in `dir`.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened.
    pub fn create(dir: &Path) -> io::Result<Self> {
        let process = std::process::id();
        let path = dir.join(format!("{process}.{EXTENSION}"));
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self { process, file: Mutex::new(file) })
    }

    /// Records that `task` of this process did `op` to `object`, now.
    ///
    /// Panics when `object` holds a line break, or the file cannot be written to.
    pub fn record(&self, task: u64, object: &str, op: Op) {
        self.write(&Event {
            at: Stamp::now(),
            process: self.process,
            task,
            object: object.to_owned(),
            op,
        });
    }

    /// Records that another process has been killed by this one.
    ///
    /// Panics when the file cannot be written to.
    pub fn record_kill(&self, process: u32) {
        let object = String::new();
        self.write(&Event { at: Stamp::now(), process, task: 0, object, op: Op::Killed });
    }

    fn write(&self, event: &Event) {
        assert!(!event.object.contains(['\n', '\r']), "an object's name is part of a line");
        let line = format!("{event}\n");
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes()).expect("a history can be written to");
    }
}

/// The events of all processes, in the order of their times.
#[derive(Debug, Clone, Default)]
pub struct History {
    events: Vec<Event>,
}

impl History {
    /// The history of all processes that have recorded into `dir`.
    ///
    /// A last line without its end is left out: its process was killed while writing it.
    ///
    /// # Errors
    ///
    /// When a file cannot be read, or has a line that is not an event's.
    pub fn load(dir: &Path) -> io::Result<Self> {
        let mut events = Vec::new();
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == EXTENSION) {
                let text = fs::read_to_string(&path)?;
                for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
                    let malformed = |error| io::Error::other(format!("{error}: {line:?}"));
                    events.push(line.parse::<Event>().map_err(malformed)?);
                }
            }
        }
        Ok(Self::from_events(events))
    }

    /// The history of these events.
    pub fn from_events(mut events: Vec<Event>) -> Self {
        // Stable, so that events of one time keep the order in which their process wrote them.
        events.sort_by_key(|event| event.at);
        Self { events }
    }

    /// All events.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// How often each process got the lock `object`.
    pub fn grants_by_process(&self, object: &str) -> BTreeMap<u32, usize> {
        self.grants(object, |event| event.process)
    }

    /// How often each task got the lock `object`, by process and task.
    pub fn grants_by_task(&self, object: &str) -> BTreeMap<(u32, u64), usize> {
        self.grants(object, |event| (event.process, event.task))
    }

    fn grants<K: Ord>(&self, object: &str, by: impl Fn(&Event) -> K) -> BTreeMap<K, usize> {
        let mut grants = BTreeMap::new();
        for event in self.events.iter().filter(|event| event.object == object) {
            // Whoever asked and got nothing is in the count, as none.
            let count = grants.entry(by(event)).or_default();
            *count += usize::from(matches!(event.op, Op::Acquired { .. }));
        }
        grants
    }
}
