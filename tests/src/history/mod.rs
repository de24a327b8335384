//! What every process did and when, and the rules that must have held.
//!
//! Each process [records](Recorder) its events in a file of its own, a line of JSON each, with times of the one clock that
//! all processes of a machine share. Afterwards [`History::check`] sweeps the history of all files for what must never
//! have happened, and returns a [`Report`].
//!
//! A *claim* lasts from when the holder knew that it had the lock until it asked for the release, reported the loss, passed
//! the hold's own deadline, or was killed, whichever came first. That is less than the store saw, so correct holds never
//! overlap, whatever was delayed in between.
//!
//! | rule | what must hold |
//! |---|---|
//! | C1 | claims that exclude each other do not overlap |
//! | C2 | a task has an effect only during its claim, and no update under a lock is lost |
//! | C3 | a hold has a greater token than every hold before it |
//! | C4 | a hold ends before its release only because of a fault or its deadline, and a late release takes nothing from a successor |
//! | C5 | readers share, a writer is alone, and what a reader reads does not change meanwhile |
//! | C6 | the permits in use stay within the limit, by the claims and by a count on another server |
//! | C7 | tasks with a place in a queue get the lock in that order |
//! | C8 | a lock is not left free while a task waits for it |
//! | C9 | the server has no key that never ends |
//! | C10 | a hold learns of its end when its deadline passes, at the latest |
//! | C11 | after a fault, every process has every lock again within a given time |
//! | C12 | the server has all keys of a lock of several names, or none |
//!
//! C9 and C12 need a task that looks at the server, as the `Sampler` does. It also looks at the queue of a fair mutex (C7). The
//! order in which a client admits its own tasks needs their places, which only tests without faults record. That nothing at
//! all is left in the end, the other half of C9, tests ask the server. C8 allows a lock to be free for a fixed time, and C11 asks for
//! one grant after a fault, not for a rate of them. That a hold whose key is gone is lost at its next renewal is tested for each
//! kind, not checked in histories. Re-entries show by the value that they update, each in turn (C2): their claim is the hold's.

mod claims;
mod event;
mod exclusion;
mod faults;
mod losses;
mod minted;
mod report;
#[cfg(test)]
mod tests;
mod tokens;
mod waits;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

pub use claims::{Claim, Over, Refusal};
pub use event::{Event, May, Op, Share, Stamp};
pub use report::{Recovery, Report, Rules, Violation};
pub use waits::Wait;

/// What the names of recorders' files end in.
const EXTENSION: &str = "events";

/// Writes down the events of one process.
///
/// Each event is one write to the file, so that a kill loses none that was recorded before it.
#[derive(Debug)]
pub struct Recorder {
    process: u32,
    /// Without a lock of ours, which would keep tasks apart where they may race: the kernel puts each line whole at the end.
    file: File,
}

impl Recorder {
    /// Records into a file of this process in `dir`.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened.
    pub fn create(dir: &Path) -> io::Result<Self> {
        Self::create_as(dir, std::process::id())
    }

    /// Records as if it were a process of that number, for several clients of one process.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened.
    pub fn create_as(dir: &Path, process: u32) -> io::Result<Self> {
        let path = dir.join(format!("{process}.{EXTENSION}"));
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self { process, file })
    }

    /// Records that `task` of this process did `op` to `object`, now.
    ///
    /// Panics when the file cannot be written to.
    pub fn record(&self, task: u64, object: &str, op: Op) {
        self.write(self.process, task, object, op);
    }

    /// Records that a task of another process has this place in the lock's queue: only the server knows.
    ///
    /// Panics when the file cannot be written to.
    pub fn record_place(&self, process: u32, task: u64, object: &str, place: u64) {
        self.write(process, task, object, Op::Queued { place });
    }

    /// Records that another process has been killed by this one.
    ///
    /// Panics when the file cannot be written to.
    pub fn record_kill(&self, process: u32) {
        self.write(process, 0, "", Op::Killed);
    }

    /// Records that a fault is injected from now on.
    ///
    /// Panics when the file cannot be written to.
    pub fn record_fault(&self, fault: &str, may: May) {
        self.begin(fault.to_owned(), may, None);
    }

    /// Records that a fault is injected from now on that befalls only this process.
    ///
    /// Panics when the file cannot be written to.
    pub fn record_fault_of(&self, fault: &str, may: May, process: u32) {
        self.begin(fault.to_owned(), may, Some(process));
    }

    /// Records that this process stands still from now on.
    ///
    /// Panics when the file cannot be written to.
    pub fn record_stop(&self, fault: &str, process: u32) {
        self.begin(fault.to_owned(), May::Stop, Some(process));
    }

    fn begin(&self, fault: String, may: May, befalls: Option<u32>) {
        self.write(self.process, 0, "", Op::FaultBegan { fault, may, befalls });
    }

    /// Records that a fault is over.
    ///
    /// Panics when the file cannot be written to.
    pub fn record_end_of_fault(&self, fault: &str) {
        self.write(self.process, 0, "", Op::FaultEnded { fault: fault.to_owned() });
    }

    fn write(&self, process: u32, task: u64, object: &str, op: Op) {
        let event = Event { at: Stamp::now(), process, task, object: object.to_owned(), op };
        let line = format!("{event}\n");
        (&self.file).write_all(line.as_bytes()).expect("a history can be written to");
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
                    events.push(serde_json::from_str(line).map_err(malformed)?);
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
}
