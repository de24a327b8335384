//! Every schedule that departs a bounded number of times from the plain one.

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

/// A choice in the schedule: one of the tasks that can run there.
struct Choice {
    taken: usize,
    options: usize,
}

/// In the plain schedule, a task runs until it waits or yields, and then the next one that can. Few departures show most
/// bugs, and without a bound three tasks have more orders than can be tried.
pub(super) struct Bounded {
    most: usize,
    /// The choices of this run; at its start, those that it has in common with the last one, and the first that differs.
    choices: Vec<Choice>,
    step: usize,
    departures: usize,
    has_run: bool,
}

impl Bounded {
    pub(super) fn new(most: usize) -> Self {
        Self { most, choices: Vec::new(), step: 0, departures: 0, has_run: false }
    }

    /// Takes this run's option, the first one in a part of the tree that is new.
    fn choose(&mut self, options: usize) -> usize {
        if self.step == self.choices.len() {
            self.choices.push(Choice { taken: 0, options });
        }
        let choice = &self.choices[self.step];
        assert_eq!(choice.options, options, "the scenario depends on more than its schedule");
        self.step += 1;
        choice.taken
    }
}

impl Scheduler for Bounded {
    fn new_execution(&mut self) -> Option<Schedule> {
        if self.has_run {
            while self.choices.last().is_some_and(|last| last.taken + 1 == last.options) {
                self.choices.pop();
            }
            self.choices.last_mut()?.taken += 1;
        }
        self.has_run = true;
        self.step = 0;
        self.departures = 0;
        Some(Schedule::new(0))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        let mut options: Vec<_> = runnable.iter().map(|task| task.id()).collect();
        // The plain schedule's task comes first: the current one if it goes on, else the next.
        options.sort_by_key(|id| {
            let is_current = Some(*id) == current;
            let goes_on = is_current && !is_yielding;
            (!goes_on, is_current, current.is_some_and(|current| *id < current), *id)
        });
        if options.len() == 1 || self.departures == self.most {
            return options.first().copied();
        }
        let taken = self.choose(options.len());
        self.departures += usize::from(taken > 0);
        Some(options[taken])
    }

    fn next_u64(&mut self) -> u64 {
        0
    }
}
