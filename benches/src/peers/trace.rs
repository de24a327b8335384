//! When each task of a turn asked for its lock, had it and released it: what drivers write and this program reads.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use rustix::time::{ClockId, clock_gettime};

use crate::Result;

/// Nanoseconds of the monotonic clock that all processes of this machine share.
pub(super) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The times of one acquire and release, in nanoseconds of the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    /// Before the task asked for the lock.
    pub(super) asked: u64,
    /// Once it had the lock.
    pub(super) held: u64,
    /// Before it began to release the lock.
    pub(super) releasing: u64,
    /// Once the release was confirmed.
    pub(super) released: u64,
}

/// What one task did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Task {
    pub(super) pairs: Vec<Pair>,
    /// Acquires and releases that ended with an error.
    pub(super) failures: u64,
}

/// Writes the file of a turn: for each task the number of pairs, the number of failures, and four times for
/// each pair, all as little-endian `u64`.
pub(super) fn write(path: &Path, tasks: &[Task]) -> io::Result<()> {
    let mut file = BufWriter::new(fs::File::create(path)?);
    let mut put = |number: u64| file.write_all(&number.to_le_bytes());
    for task in tasks {
        put(task.pairs.len() as u64)?;
        put(task.failures)?;
        for pair in &task.pairs {
            [pair.asked, pair.held, pair.releasing, pair.released]
                .into_iter()
                .try_for_each(&mut put)?;
        }
    }
    file.flush()
}

/// Reads what [`write()`] or a driver in another language wrote.
///
/// # Errors
///
/// When there is no such file, or it ends in the middle of a task.
pub(super) fn read(path: &Path) -> Result<Vec<Task>> {
    let bytes = fs::read(path)?;
    let (words, _) = bytes.as_chunks::<8>();
    let mut numbers = words.iter().map(|word| u64::from_le_bytes(*word));
    let mut tasks = Vec::new();
    while let Some(count) = numbers.next() {
        let mut next = || numbers.next().ok_or("the file of a turn ends in the middle of a task");
        let mut task = Task { pairs: Vec::new(), failures: next()? };
        for _ in 0..count {
            let [asked, held, releasing, released] = [next()?, next()?, next()?, next()?];
            task.pairs.push(Pair { asked, held, releasing, released });
        }
        tasks.push(task);
    }
    Ok(tasks)
}
