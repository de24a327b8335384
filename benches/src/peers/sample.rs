//! What the times of a turn say.

use std::time::Duration;

use super::trace::{Pair, Task};
use crate::contender::is_write;

/// What the tasks of all processes did in one turn.
pub(super) struct Turn {
    /// The tasks of each process.
    processes: Vec<Vec<Task>>,
    /// The first acquire; pairs from here on count for as long as the turn was to last.
    start: u64,
    end: u64,
}

/// A hold, as far as it counts for exclusion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    from: u64,
    to: u64,
    process: usize,
    is_read: bool,
}

impl Turn {
    pub(super) fn new(processes: Vec<Vec<Task>>, length: Duration) -> Self {
        let asked =
            processes.iter().flatten().flat_map(|task| task.pairs.first()).map(|pair| pair.asked);
        let start = asked.min().unwrap_or_default();
        let end = start.saturating_add(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX));
        Self { processes, start, end }
    }

    fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.processes.iter().flatten()
    }

    fn within(&self, task: &Task) -> usize {
        task.pairs.iter().filter(|pair| pair.held < self.end).count()
    }

    /// All pairs, with those that ended after the turn.
    pub(super) fn all_pairs(&self) -> usize {
        self.tasks().map(|task| task.pairs.len()).sum()
    }

    /// Pairs a second.
    pub(super) fn rate(&self) -> f64 {
        let pairs: usize = self.tasks().map(|task| self.within(task)).sum();
        pairs as f64 * 1e9 / (self.end - self.start) as f64
    }

    /// Quantiles of the time of a pair, in µs.
    pub(super) fn quantiles(&self, parts: [f64; 2]) -> [f64; 2] {
        let pairs = self.tasks().flat_map(|task| &task.pairs);
        quantiles(pairs.map(|pair| pair.released.saturating_sub(pair.asked)).collect(), parts)
    }

    /// The median time from the call that asks to the hold, in µs.
    pub(super) fn wait(&self) -> f64 {
        let pairs = self.tasks().flat_map(|task| &task.pairs);
        quantiles(pairs.map(|pair| pair.held.saturating_sub(pair.asked)).collect(), [0.5])[0]
    }

    /// Fewest ÷ most pairs of a task.
    pub(super) fn evenness_of_tasks(&self) -> f64 {
        evenness(self.tasks().map(|task| self.within(task)))
    }

    /// Fewest ÷ most pairs of a process.
    pub(super) fn evenness_of_processes(&self) -> f64 {
        evenness(
            self.processes.iter().map(|tasks| tasks.iter().map(|task| self.within(task)).sum()),
        )
    }

    pub(super) fn failures(&self) -> u64 {
        self.tasks().map(|task| task.failures).sum()
    }

    /// All holds of the one lock, in the order of their begin.
    pub(super) fn holds(&self, shares_reads: bool) -> Holds {
        let mut holds = Vec::with_capacity(self.all_pairs());
        for (process, tasks) in self.processes.iter().enumerate() {
            for (number, task) in tasks.iter().enumerate() {
                let hold = |(at, pair): (usize, &Pair)| Held {
                    from: pair.held,
                    to: pair.releasing,
                    process,
                    is_read: shares_reads && !is_write(number, at),
                };
                holds.extend(task.pairs.iter().enumerate().map(hold));
            }
        }
        holds.sort_unstable();
        Holds(holds)
    }
}

/// The holds of one lock, in the order of their begin.
pub(super) struct Holds(Vec<Held>);

impl Holds {
    /// How often a hold began before another had ended that excludes it.
    pub(super) fn doubles(&self) -> usize {
        let (mut end_of_writes, mut end_of_all) = (0, 0);
        let mut doubles = 0;
        for hold in &self.0 {
            let free_from = if hold.is_read { end_of_writes } else { end_of_all };
            doubles += usize::from(hold.from < free_from);
            end_of_all = end_of_all.max(hold.to);
            if !hold.is_read {
                end_of_writes = end_of_writes.max(hold.to);
            }
        }
        doubles
    }

    /// The median time from one process's hold to the next of another process, in µs; `None` if the lock never
    /// moved.
    pub(super) fn hand_over(&self) -> Option<f64> {
        let moves =
            self.0.array_windows().filter(|[before, after]| before.process != after.process);
        let times: Vec<_> =
            moves.map(|[before, after]| after.from.saturating_sub(before.to)).collect();
        (!times.is_empty()).then(|| quantiles(times, [0.5])[0])
    }
}

/// Quantiles in µs of times in nanoseconds; NaN if there are none.
fn quantiles<const N: usize>(mut nanos: Vec<u64>, parts: [f64; N]) -> [f64; N] {
    nanos.sort_unstable();
    parts.map(|part| {
        let at = (nanos.len().saturating_sub(1) as f64 * part).round() as usize;
        nanos.get(at).map_or(f64::NAN, |nanos| *nanos as f64 / 1000.0)
    })
}

fn evenness(counts: impl Iterator<Item = usize>) -> f64 {
    let counts: Vec<_> = counts.collect();
    let least = counts.iter().min().copied().unwrap_or_default();
    let most = counts.iter().max().copied().unwrap_or_default();
    least as f64 / most.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task whose holds are these, in µs.
    fn task(holds: &[(u64, u64)]) -> Task {
        let pair = |(from, to): &(u64, u64)| Pair {
            asked: from * 1000 - 500,
            held: from * 1000,
            releasing: to * 1000,
            released: to * 1000 + 500,
        };
        Task { pairs: holds.iter().map(pair).collect(), failures: 0 }
    }

    fn turn(processes: Vec<Vec<Task>>) -> Turn {
        Turn::new(processes, Duration::from_micros(100))
    }

    #[test]
    fn holds_that_follow_each_other_are_no_doubles() {
        let turn =
            turn(vec![vec![task(&[(1, 2), (5, 6)]), task(&[(2, 3)])], vec![task(&[(3, 4)])]]);
        assert_eq!(turn.holds(false).doubles(), 0);
        // From 2–3 to 3–4, and from 3–4 to 5–6.
        assert_eq!(turn.holds(false).hand_over(), Some(1.0));
        assert_eq!(turn.all_pairs(), 4);
        assert_eq!(turn.rate(), 40_000.0);
        assert_eq!((turn.evenness_of_tasks(), turn.evenness_of_processes()), (0.5, 1.0 / 3.0));
        assert_eq!((turn.quantiles([0.5, 0.99]), turn.wait()), ([2.0, 2.0], 0.5));
    }

    #[test]
    fn readers_may_hold_together_but_not_with_a_writer() {
        // The first acquire of task 0 is its write.
        let readers = || vec![Task::default(), task(&[(3, 6)]), task(&[(4, 7)])];
        assert_eq!(turn(vec![readers()]).holds(true).doubles(), 0);
        assert_eq!(turn(vec![readers()]).holds(false).doubles(), 1);
        let with_writer = |from, to| {
            let mut tasks = readers();
            tasks[0] = task(&[(from, to)]);
            turn(vec![tasks]).holds(true).doubles()
        };
        assert_eq!(with_writer(1, 2), 0);
        assert_eq!(with_writer(1, 5), 2);
        assert_eq!(with_writer(6, 8), 1);
    }
}
