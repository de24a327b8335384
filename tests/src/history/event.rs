//! One thing that a process did, as a line of JSON.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A time on the machine's monotonic clock, which all its processes share: nanoseconds since its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stamp(u64);

/// What a task of a process did to an object, or what befell it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When. For what is asked of the lock, before asking; for what it answers, after.
    #[serde(rename = "t")]
    pub at: Stamp,
    /// The process that did it.
    pub process: u32,
    /// The task of that process that did it.
    pub task: u64,
    /// The lock's name. Empty for what concerns the process, or all of them, as a whole.
    pub object: String,
    /// What it was.
    #[serde(flatten)]
    pub op: Op,
}

/// The kinds of [`Event`].
///
/// Only the outermost hold of a task is recorded: a re-entry is part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// The task asks for the lock.
    AcquireInvoked,
    /// The task has a place in the lock's queue in the store; smaller numbers come first.
    Queued {
        /// The place.
        place: u64,
    },
    /// The task has the lock.
    Acquired {
        /// Who else may have it meanwhile.
        share: Share,
        /// The fencing token of the hold, if it has one.
        token: Option<u64>,
        /// The hold's own deadline, if it is known.
        valid_until: Option<Stamp>,
    },
    /// The task did not get the lock, or does not know.
    NotAcquired,
    /// The hold has got a later deadline.
    Extended {
        /// The deadline.
        valid_until: Stamp,
    },
    /// The task did something that the lock is to protect.
    Effect,
    /// The task read a value that the lock is to protect, worked for a while, and wrote another.
    Updated {
        /// What it read.
        from: u64,
        /// What it wrote.
        to: u64,
    },
    /// The task was cancelled in its last update: it may have written the value or not.
    WriteCancelled,
    /// The task read a value that the lock is to protect, worked for a while, and read it again.
    Reread {
        /// What it read first.
        before: u64,
        /// What it read then.
        after: u64,
    },
    /// The task counted its permits in, on a server that no fault befalls. It counts them out before it asks for the release.
    Entered {
        /// How many permits were counted in then, with its own.
        inside: u64,
    },
    /// The hold reported that it is lost.
    Lost,
    /// The task asks for the release.
    ReleaseInvoked,
    /// The release was confirmed.
    Released,
    /// The release failed.
    NotReleased {
        /// True if the store did not have the hold any more, false if it gave no answer.
        lost: bool,
    },
    /// The whole process was killed: recorded by the process that killed it.
    Killed,
    /// The server has a key, the object, that never ends.
    Endless,
    /// At the server, another owner overtook a waiter of a fair mutex that had not lost its place.
    Passed {
        /// The owner that waited longer.
        waiter: String,
        /// The owner that overtook it.
        by: String,
    },
    /// The server has some of the keys of a lock of several names, and not the others.
    Parts {
        /// How many it has.
        held: usize,
        /// Of how many.
        of: usize,
        /// After how many milliseconds the last of those that it has ends.
        ends_in: u64,
    },
    /// The machine was so busy that a task of this process that was due did not run before now.
    Busy {
        /// When it should have run.
        since: Stamp,
    },
    /// From now on a fault is injected.
    FaultBegan {
        /// Which one.
        fault: String,
        /// What it may do.
        may: May,
        /// The process that it befalls, if that is only one.
        befalls: Option<u32>,
    },
    /// The fault is over.
    FaultEnded {
        /// Which one.
        fault: String,
    },
}

/// What a fault may do. Every fault may make things slow, and so have leases end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum May {
    /// Nothing else.
    Delay,
    /// Processes stand still, or sleep, so what they do next comes late, and no lease can prevent it.
    Stop,
    /// Requests arrive once more, or after their client has given them up: an owner that has left a queue may queue again.
    Repeat,
    /// One of several servers loses what it has confirmed: a hold may be lost, but no two hold a lock.
    ForgetInPart,
    /// The store loses what it has confirmed, so two may hold a lock; fencing tokens have their order all the same. It lasts
    /// for the moment of the loss: what comes before and after it is another fault.
    Forget,
}

/// Who may have a lock at the same time as a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// No other task.
    Exclusive,
    /// Other readers.
    Readers,
    /// Others that have permits, up to the limit in all.
    Permits {
        /// The permits of this holder.
        count: u32,
        /// The limit that it knew.
        limit: u32,
    },
}

impl Stamp {
    /// Later than every time of a clock.
    pub const MAX: Self = Self(u64::MAX);

    /// The time now.
    ///
    /// Panics on a system whose monotonic clock is below zero.
    pub fn now() -> Self {
        let now = Duration::try_from(clock_gettime(ClockId::Monotonic));
        Self::from_origin(now.expect("a monotonic clock counts up from zero"))
    }

    /// The time this long after the clock's origin.
    pub fn from_origin(since: Duration) -> Self {
        Self(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The time this long after this one.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(Self::from_origin(span).0))
    }

    /// The time from `earlier` to this one; zero if it is not earlier.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Nanoseconds since the clock's origin, as in [`Event`]s' lines.
impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Stamp {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        text.parse().map(Self)
    }
}

/// The line, without its end.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = serde_json::to_string(self).map_err(|_| fmt::Error)?;
        f.write_str(&line)
    }
}
