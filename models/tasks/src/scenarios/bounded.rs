//! Every schedule with a bounded number of preemptions.

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

/// A choice in the schedule: which of the tasks that could run there, in their order.
struct Choice {
    taken: usize,
    options: usize,
}

/// Takes every choice where a task waits or ends, and up to a bound also elsewhere: most bugs need few preemptions, and
/// without a bound three tasks have more orders than can be tried.
pub(super) struct Bounded {
    most: usize,
    /// The choices of this run; those from before it up to where it differs from the last one.
    choices: Vec<Choice>,
    step: usize,
    preemptions: usize,
    has_run: bool,
}

impl Bounded {
    pub(super) fn new(most: usize) -> Self {
        Self { most, choices: Vec::new(), step: 0, preemptions: 0, has_run: false }
    }

    /// Takes the next option of this choice, the first one in a part of the tree that is new.
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
        self.preemptions = 0;
        Some(Schedule::new(0))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        let ids = || runnable.iter().map(|task| task.id());
        let goes_on = current.filter(|id| ids().any(|other| other == *id));
        let others = || ids().filter(|id| Some(*id) != goes_on);
        let options: Vec<_> = match goes_on {
            Some(current) if is_yielding && runnable.len() > 1 => {
                let _ = current;
                others().collect()
            }
            Some(current) if self.preemptions == self.most => vec![current],
            Some(current) => std::iter::once(current).chain(others()).collect(),
            None => ids().collect(),
        };
        let next = options[if options.len() == 1 { 0 } else { self.choose(options.len()) }];
        if goes_on.is_some_and(|current| current != next) && !is_yielding {
            self.preemptions += 1;
        }
        Some(next)
    }

    fn next_u64(&mut self) -> u64 {
        0
    }
}
