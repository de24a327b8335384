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
    /// All acquire and release the same read/write lock, one acquire of [`WRITE_EVERY`] for writing.
    ReadWrite,
}

/// One of so many acquires of a read/write lock is a write.
pub(crate) const WRITE_EVERY: usize = 10;

/// Whether a task's acquire of a read/write lock is a write; both are counted from zero.
pub(crate) fn is_write(task: usize, acquire: usize) -> bool {
    (task + acquire).is_multiple_of(WRITE_EVERY)
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
    pub(crate) const ALL: [Self; 12] = [
        Self::of(Work::Own, 1, 1),
        Self::of(Work::Own, 1, 64),
        Self::of(Work::Hot, 1, 8),
        Self::of(Work::Hot, 1, 64),
        Self::of(Work::Hot, 1, 512),
        Self::of(Work::Hot, 4, 16),
        Self::of(Work::Fair, 1, 8),
        Self::of(Work::Fair, 1, 64),
        Self::of(Work::Fair, 4, 16),
        Self::of(Work::ReadWrite, 1, 64),
        Self::of(Work::ReadWrite, 4, 16),
        Self::of(Work::ReadWrite, 1, 64).held(Duration::from_millis(5)),
    ];

    /// How throughput grows with tasks, keys and processes.
    pub(crate) const CURVES: [Self; 13] = [
        Self::of(Work::Own, 1, 1),
        Self::of(Work::Own, 1, 8),
        Self::of(Work::Own, 1, 64),
        Self::of(Work::Own, 1, 512),
        Self::of(Work::Own, 1, 4096),
        Self::of(Work::Hot, 1, 8),
        Self::of(Work::Hot, 1, 64),
        Self::of(Work::Hot, 1, 512),
        Self::of(Work::Hot, 1, 4096),
        Self::of(Work::Hot, 1, 16),
        Self::of(Work::Hot, 2, 16),
        Self::of(Work::Hot, 4, 16),
        Self::of(Work::Hot, 8, 16),
    ];

    /// This work by so many.
    pub(crate) const fn of(work: Work, processes: usize, tasks: usize) -> Self {
        Self { work, processes, tasks, hold: Duration::ZERO }
    }

    /// The same with tasks that keep the lock so long.
    const fn held(self, hold: Duration) -> Self {
        Self { hold, ..self }
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
            Some(Self::of(Work::of(word)?, number(processes)?, number(tasks)?).held(hold))
        };
        row().ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(Self::to_string).collect();
            format!("there is no row `{text}`; give one such as {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read() {
        for row in Row::ALL.into_iter().chain(Row::CURVES) {
            assert_eq!(row.to_string().parse(), Ok(row));
        }
        for nonsense in ["hot", "hot-", "hot-0", "pears-8", "hot-4x", "hot-99999", "hot-8-ms"] {
            assert!(nonsense.parse::<Row>().is_err(), "{nonsense}");
        }
    }

    #[test]
    fn every_row_and_work_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> = Row::ALL.iter().map(Row::to_string).collect();
        assert_eq!(names.len(), Row::ALL.len());
        assert!(names.contains("own-64") && names.contains("hot-4x16"));
        assert!(Work::ALL.iter().all(|work| Work::of(work.word()) == Some(*work)));
    }

    #[test]
    fn one_acquire_of_ten_is_a_write() {
        for task in 0..20 {
            assert_eq!((0..100).filter(|acquire| is_write(task, *acquire)).count(), 10);
        }
    }
}
