//! One thing that a process did, and its line of text.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A time on the machine's monotonic clock, which all its processes share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(Duration);

/// What a task of a process did to an object, or what befell it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When. For what is asked of the lock, before asking; for what it answers, after.
    pub at: Stamp,
    /// The process that did it.
    pub process: u32,
    /// The task of that process that did it.
    pub task: u64,
    /// The lock's name. Empty for what concerns the process as a whole.
    pub object: String,
    /// What it was.
    pub op: Op,
}

/// The kinds of [`Event`].
///
/// Only the outermost hold of a task is recorded: a re-entry is part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// The task asks for the lock.
    AcquireInvoked,
    /// The task has the lock.
    Acquired {
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
    /// The hold reported that it is lost.
    Lost,
    /// The task asks for the release.
    ReleaseInvoked,
    /// The release was confirmed.
    Released,
    /// The whole process was killed: recorded by whoever did it.
    Killed,
}

impl Stamp {
    /// Later than every time of a clock.
    pub const MAX: Self = Self(Duration::MAX);

    /// The time now.
    ///
    /// Panics on a system whose monotonic clock is below zero.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        Self(Duration::try_from(now).expect("a monotonic clock counts up from zero"))
    }

    /// The time this long after the clock's origin.
    pub const fn from_origin(since: Duration) -> Self {
        Self(since)
    }

    /// The time this long after this one.
    #[must_use]
    pub const fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }

    /// The time from `earlier` to this one; zero if it is not earlier.
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Nanoseconds since the clock's origin, as in [`Event`]s' lines.
impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.as_nanos())
    }
}

impl FromStr for Stamp {
    type Err = MalformedEvent;

    fn from_str(text: &str) -> Result<Self, MalformedEvent> {
        let nanos = text.parse().map_err(|_| MalformedEvent)?;
        Ok(Self(Duration::from_nanos(nanos)))
    }
}

/// A line that is not an [`Event`]'s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedEvent;

impl fmt::Display for MalformedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a line `t=… proc=… task=… op=… [token=…] [until=…] obj=…`")
    }
}

impl std::error::Error for MalformedEvent {}

/// One line, without its end: `t=… proc=… task=… op=… [token=…] [until=…] obj=…`. The object is
/// last and may hold spaces, but no line break.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, process, task, object, op } = self;
        write!(f, "t={at} proc={process} task={task} op={}", op.name())?;
        let (token, until) = match op {
            Op::Acquired { token, valid_until } => (*token, *valid_until),
            Op::Extended { valid_until } => (None, Some(*valid_until)),
            _ => (None, None),
        };
        if let Some(token) = token {
            write!(f, " token={token}")?;
        }
        if let Some(until) = until {
            write!(f, " until={until}")?;
        }
        write!(f, " obj={object}")
    }
}

impl FromStr for Event {
    type Err = MalformedEvent;

    fn from_str(line: &str) -> Result<Self, MalformedEvent> {
        let (fields, object) = line.split_once(" obj=").ok_or(MalformedEvent)?;
        let mut fields = fields.split(' ').peekable();
        let mut field = |name: &str| {
            let value = fields.peek().copied()?.strip_prefix(name)?.strip_prefix('=')?;
            fields.next();
            Some(value)
        };
        let at = field("t").ok_or(MalformedEvent)?.parse()?;
        let process = number(field("proc"))?.ok_or(MalformedEvent)?;
        let task = number(field("task"))?.ok_or(MalformedEvent)?;
        let name = field("op").ok_or(MalformedEvent)?;
        let token = number(field("token"))?;
        let valid_until = field("until").map(str::parse).transpose()?;
        let op = Op::from_name(name, token, valid_until).ok_or(MalformedEvent)?;
        let event = Self { at, process, task, object: object.to_owned(), op };
        if fields.next().is_some() { Err(MalformedEvent) } else { Ok(event) }
    }
}

impl Op {
    fn name(self) -> &'static str {
        match self {
            Self::AcquireInvoked => "acq_invoke",
            Self::Acquired { .. } => "acq_ok",
            Self::NotAcquired => "acq_fail",
            Self::Extended { .. } => "renew_ok",
            Self::Effect => "effect",
            Self::Lost => "lost",
            Self::ReleaseInvoked => "rel_invoke",
            Self::Released => "rel_ok",
            Self::Killed => "killed",
        }
    }

    fn from_name(name: &str, token: Option<u64>, valid_until: Option<Stamp>) -> Option<Self> {
        Some(match name {
            "acq_invoke" => Self::AcquireInvoked,
            "acq_ok" => Self::Acquired { token, valid_until },
            "acq_fail" => Self::NotAcquired,
            "renew_ok" => Self::Extended { valid_until: valid_until? },
            "effect" => Self::Effect,
            "lost" => Self::Lost,
            "rel_invoke" => Self::ReleaseInvoked,
            "rel_ok" => Self::Released,
            "killed" => Self::Killed,
            _ => return None,
        })
    }
}

fn number<T: FromStr>(text: Option<&str>) -> Result<Option<T>, MalformedEvent> {
    text.map(str::parse).transpose().map_err(|_| MalformedEvent)
}
