//! The faults of a history: what they allow, and how long it took to recover from them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::report::Violation;
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
            self.0.iter().any(|it| by.contains(&it.may) && (it.began..=it.until).contains(&at))
        })
    }

    /// For each fault, the longest time from its end until a process that asked for a lock had it again, or to the end of the
    /// history.
    pub(super) fn recoveries(&self, history: &History) -> BTreeMap<String, Duration> {
        let mut recoveries = BTreeMap::new();
        for fault in self.0.iter().filter(|it| it.ended < Stamp::MAX) {
            for until in next_grants(history, fault.ended) {
                let span: &mut Duration = recoveries.entry(fault.name.clone()).or_default();
                *span = (*span).max(until.since(fault.ended));
            }
        }
        recoveries
    }
}

/// For each process and lock that it asked for: when it had it after that time, or when the history ends.
fn next_grants(history: &History, after: Stamp) -> impl Iterator<Item = Stamp> {
    let mut next: BTreeMap<(u32, &str), Option<Stamp>> = BTreeMap::new();
    let first = history.events().partition_point(|event| event.at < after);
    for event in &history.events()[first..] {
        let grant = match event.op {
            Op::AcquireInvoked => None,
            Op::Acquired { .. } => Some(event.at),
            _ => continue,
        };
        let next = next.entry((event.process, &event.object)).or_default();
        *next = next.or(grant);
    }
    let end = history.events().last().map_or(after, |event| event.at);
    next.into_values().map(move |at| at.unwrap_or(end))
}
