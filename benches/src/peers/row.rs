//! What is measured: the work of each row.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What the tasks of a row do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Each task acquires and releases a lock of its own.
    Own,
    /// All acquire and release the same lock.
    Hot,
    /// All acquire and release the same fair lock.
    Fair,
    /// All acquire and release the same read/write lock, one acquire of ten for writing.
    ReadWrite,
}

impl Work {
    const ALL: [Self; 4] = [Self::Own, Self::Hot, Self::Fair, Self::ReadWrite];

    /// The word for it that drivers understand.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Hot => "hot",
            Self::Fair => "fair",
            Self::ReadWrite => "read-write",
        }
    }

    /// The work of this word.
    pub(crate) fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|work| work.word() == word)
    }
}

/// Work by so many processes with so many tasks each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) work: Work,
    pub(crate) processes: usize,
    pub(crate) tasks: usize,
    /// How long a task keeps the lock.
    pub(crate) hold: Duration,
}

impl Row {
    /// All rows, in the order of the report.
    pub(crate) const ALL: [Self; 14] = [
        Self::of(Work::Own, 1, 1),
        Self::of(Work::Own, 1, 64),
        Self::of(Work::Hot, 1, 8),
        Self::of(Work::Hot, 1, 64),
        Self::of(Work::Hot, 1, 512),
        Self::of(Work::Hot, 4, 16),
        Self::of(Work::Fair, 1, 8),
        Self::of(Work::Fair, 1, 64),
        Self::of(Work::Fair, 1, 1_000),
        Self::of(Work::Fair, 1, 10_000),
        Self::of(Work::Fair, 4, 16),
        Self::of(Work::ReadWrite, 1, 64),
        Self::of(Work::ReadWrite, 4, 16),
        Self { hold: Duration::from_millis(5), ..Self::of(Work::ReadWrite, 1, 64) },
    ];

    /// This work by so many.
    pub(crate) const fn of(work: Work, processes: usize, tasks: usize) -> Self {
        Self { work, processes, tasks, hold: Duration::ZERO }
    }

    /// Whether one task makes single round trips, so that only the time of a pair counts.
    pub(crate) fn is_single(self) -> bool {
        self.processes * self.tasks == 1
    }
}

/// As in `--row`: `own-64`, `hot-4x16`, `read-write-64-5ms`.
impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.processes {
            1 => write!(f, "{}-{}", self.work.word(), self.tasks)?,
            processes => write!(f, "{}-{processes}x{}", self.work.word(), self.tasks)?,
        }
        match self.hold.as_millis() {
            0 => Ok(()),
            millis => write!(f, "-{millis}ms"),
        }
    }
}

impl FromStr for Row {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let row = || {
            let (text, hold) = match text.strip_suffix("ms").and_then(|it| it.rsplit_once('-')) {
                Some((text, millis)) => (text, Duration::from_millis(millis.parse().ok()?)),
                None => (text, Duration::ZERO),
            };
            let (word, who) = text.rsplit_once('-')?;
            let (processes, tasks) = who.split_once('x').unwrap_or(("1", who));
            let number =
                |text: &str| text.parse().ok().filter(|number| (1..=10_000).contains(number));
            let row = Self::of(Work::of(word)?, number(processes)?, number(tasks)?);
            Some(Self { hold, ..row })
        };
        row().ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(Self::to_string).collect();
            format!("there is no row or case `{text}`; give a row such as {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read() {
        for row in Row::ALL {
            assert_eq!(row.to_string().parse(), Ok(row));
        }
        for nonsense in ["hot", "hot-", "hot-0", "pears-8", "hot-4x", "hot-99999", "hot-8-ms"] {
            assert!(nonsense.parse::<Row>().is_err(), "{nonsense}");
        }
    }
}
