//! The faults of a history: what they allow, and how long it took to recover from them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::report::{Recovery, Violation};
use super::{History, May, Op, Stamp};

/// The faults of a history.
pub(super) struct Faults(Vec<Fault>);

struct Fault {
    name: String,
    may: May,
    began: Stamp,
    /// `MAX` if it was not over at the end.
    ended: Stamp,
    /// Until when it may have effects.
    until: Stamp,
}

impl Faults {
    /// Those of a history, whose aftermath may last so long.
    pub(super) fn of(history: &History, aftermath: Duration) -> Self {
        let mut faults: Vec<Fault> = Vec::new();
        for event in history.events() {
            match &event.op {
                Op::FaultBegan { fault, may } => faults.push(Fault {
                    name: fault.clone(),
                    may: *may,
                    began: event.at,
                    ended: Stamp::MAX,
                    until: Stamp::MAX,
                }),
                Op::FaultEnded { fault } => {
                    let mut open = faults.iter_mut().filter(|it| it.ended == Stamp::MAX);
                    if let Some(it) = open.find(|it| it.name == *fault) {
                        (it.ended, it.until) = (event.at, event.at.after(aftermath));
                    }
                }
                _ => {}
            }
        }
        Self(faults)
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// True if a fault allows this.
    pub(super) fn allow(&self, violation: &Violation) -> bool {
        violation.allowed_by().is_some_and(|(at, by)| {
            let due = |it: &&Fault| by.contains(&it.may) && (it.began..=it.until).contains(&at);
            // Two that both asked after the fault have no excuse.
            self.0.iter().filter(due).any(|it| violation.asked().is_none_or(|at| at <= it.ended))
        })
    }

    /// For each fault, the process that waited longest after it until it had a lock again, or until the end of the history.
    pub(super) fn recoveries(&self, history: &History) -> BTreeMap<String, Recovery> {
        let mut slowest: BTreeMap<String, Recovery> = BTreeMap::new();
        for fault in self.0.iter().filter(|it| it.ended < Stamp::MAX) {
            for ((process, object), took) in first_waits(history, fault.ended) {
                let known = slowest.get(&fault.name).map(|it| it.took);
                if known.is_none_or(|known| known < took) {
                    let recovery = Recovery { process, object: object.to_owned(), took };
                    slowest.insert(fault.name.clone(), recovery);
                }
            }
        }
        slowest
    }
}

/// For each process and lock that it asked for: how long it waited for it after that time, or until the history ends. A process
/// that is killed waits no more.
fn first_waits(history: &History, after: Stamp) -> BTreeMap<(u32, &str), Duration> {
    let mut asking: BTreeMap<(u32, u64, &str), Stamp> = BTreeMap::new();
    let mut waits: BTreeMap<(u32, &str), (Stamp, Option<Stamp>)> = BTreeMap::new();
    for event in history.events() {
        let task = (event.process, event.task, &*event.object);
        let whose = (event.process, &*event.object);
        match event.op {
            Op::AcquireInvoked => {
                asking.insert(task, event.at);
                if event.at >= after {
                    waits.entry(whose).or_insert((event.at, None));
                }
            }
            Op::Acquired { .. } => {
                asking.remove(&task);
                if event.at >= after {
                    // A task that asked before has waited since that time.
                    waits.entry(whose).or_insert((after, None)).1.get_or_insert(event.at);
                }
            }
            Op::NotAcquired => drop(asking.remove(&task)),
            Op::Killed => {
                asking.retain(|(process, ..), _| *process != event.process);
                waits.retain(|(process, _), wait| *process != event.process || wait.1.is_some());
            }
            _ => {}
        }
    }
    // Those that asked before and have no answer to this day.
    for (process, _, object) in asking.iter().filter(|(_, at)| **at < after).map(|it| it.0) {
        waits.entry((*process, object)).or_insert((after, None));
    }
    let end = history.events().last().map_or(after, |event| event.at);
    let took = |(asked, granted): (Stamp, Option<Stamp>)| granted.unwrap_or(end).since(asked);
    waits.into_iter().map(|(whose, wait)| (whose, took(wait))).collect()
}
