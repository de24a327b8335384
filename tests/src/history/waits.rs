//! The rules on waiting: in the order of the queue (C7), and not longer than the lock is held (C8).

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use super::claims::Holder;
use super::{Claim, Event, Op, Stamp, Violation};

/// Each claim of a task that had a place in the queue, if one with an earlier place got its claim later and had not left
/// the queue. The place is the one that the task had last.
pub(super) fn overtakes(events: &[Event], claims: &[Claim]) -> Vec<Violation> {
    let mut places: HashMap<Holder, Vec<(Stamp, u64)>> = HashMap::new();
    for event in events {
        if let Op::Queued { place } = event.op {
            let holder = (event.process, event.task, event.object.clone());
            places.entry(holder).or_default().push((event.at, place));
        }
    }
    // A place counts for the claim that the wait led to.
    let place_of = |claim: &Claim| {
        let places = places.get(&claim.holder())?;
        let wait = claim.invoked..=claim.start;
        places.iter().rev().find(|(at, _)| wait.contains(at)).copied()
    };
    let mut latest: BTreeMap<&str, (u64, &Claim)> = BTreeMap::new();
    let mut violations = Vec::new();
    for claim in claims {
        let Some((queued, place)) = place_of(claim) else { continue };
        let first = latest.entry(&claim.object).or_insert((place, claim));
        if first.0 > place && first.1.start > queued {
            violations.push(Violation::Overtaken(claim.clone(), first.1.clone()));
        } else {
            *first = (place, claim);
        }
    }
    violations
}

/// The time in which one task waited for a lock: from when it asked first since its last hold (it may have given up and
/// asked anew) until it had the lock, gave up for the last time, was killed, or the history ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// The lock's name.
    pub object: String,
    /// The process of the task.
    pub process: u32,
    /// The task.
    pub task: u64,
    /// When it asked.
    pub from: Stamp,
    /// When the wait ended.
    pub to: Stamp,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, process, task, from, to } = self;
        write!(f, "{object} by task {task} of process {process} [{from}, {to})")
    }
}

/// Finds the waits in a sequence of events.
#[derive(Default)]
pub(super) struct Waits {
    /// Since when each task waits, and when it gave up, if it has not asked again since.
    going_on: HashMap<Holder, (Stamp, Option<Stamp>)>,
    over: Vec<Wait>,
}

impl Waits {
    pub(super) fn asks(&mut self, holder: Holder, at: Stamp) {
        self.going_on.entry(holder).or_insert((at, None)).1 = None;
    }

    pub(super) fn gives_up(&mut self, holder: &Holder, at: Stamp) {
        if let Some((_, gave_up)) = self.going_on.get_mut(holder) {
            *gave_up = Some(at);
        }
    }

    pub(super) fn is_granted(&mut self, holder: &Holder, at: Stamp) {
        if let Some((holder, (from, _))) = self.going_on.remove_entry(holder) {
            self.add(holder, from, at);
        }
    }

    pub(super) fn is_killed(&mut self, process: u32, at: Stamp) {
        let its = self.going_on.extract_if(|(whose, ..), _| *whose == process);
        for (holder, (from, gave_up)) in its.collect::<Vec<_>>() {
            self.add(holder, from, gave_up.unwrap_or(at));
        }
    }

    /// All waits of a history that ends at that time.
    pub(super) fn finish(mut self, end: Stamp) -> Vec<Wait> {
        for (holder, (from, gave_up)) in std::mem::take(&mut self.going_on) {
            self.add(holder, from, gave_up.unwrap_or(end));
        }
        self.over
    }

    fn add(&mut self, (process, task, object): Holder, from: Stamp, to: Stamp) {
        self.over.push(Wait { object, process, task, from, to });
    }
}

/// Each time for which a lock was free for longer than `most` during a wait for it, granted in the end or not. A fault may
/// excuse one of them and not another.
pub(super) fn left_free(claims: &[Claim], waits: &[Wait], most: Duration) -> Vec<Violation> {
    let free = free_times(claims, most);
    let always = [(Stamp::from_origin(Duration::ZERO), Stamp::MAX)];
    let within = |wait: &Wait| {
        let free = free.get(&*wait.object).map_or(&always[..], Vec::as_slice);
        let parts = free.iter().map(|(from, to)| (wait.from.max(*from), wait.to.min(*to)));
        let too_long = parts.filter(|(from, to)| to.since(*from) > most);
        too_long.map(|(from, to)| Violation::LeftFree(wait.clone(), from, to)).collect::<Vec<_>>()
    };
    waits.iter().flat_map(within).collect()
}

/// When each lock had no claim for longer than `most`. A release takes effect between its request and its confirmation.
fn free_times(claims: &[Claim], most: Duration) -> HashMap<&str, Vec<(Stamp, Stamp)>> {
    let mut free: HashMap<&str, Vec<(Stamp, Stamp)>> = HashMap::new();
    for claim in claims {
        // The last one is from the end of the last claim on.
        let times = free
            .entry(&claim.object)
            .or_insert_with(|| vec![(Stamp::from_origin(Duration::ZERO), Stamp::MAX)]);
        if let Some((from, to)) = times.pop() {
            if claim.start.since(from) > most {
                times.push((from, claim.start));
            }
            times.push((from.max(claim.released.unwrap_or(claim.end)), to));
        }
    }
    free
}
