//! The rules on the ends of holds (C4, C10), and on what they protect (C2).

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::exclusion::permits;
use super::{Claim, Event, Op, Over, Stamp, Violation};

/// Holds that were lost before their deadline, and those that learned of their end later than `notice` after it.
pub(super) fn losses(claims: &[Claim], notice: Duration) -> Vec<Violation> {
    let mut violations = Vec::new();
    for claim in claims {
        let Some((over, at)) = claim.over else { continue };
        let deadline = claim.valid_until;
        if over == Over::Loss && deadline.is_none_or(|deadline| at < deadline) {
            violations.push(Violation::Lost(claim.clone()));
        }
        if over != Over::Kill && deadline.is_some_and(|deadline| at > deadline.after(notice)) {
            violations.push(Violation::LateNotice(claim.clone(), at));
        }
    }
    violations
}

/// Releases that were confirmed though the hold had ended, and others had begun before they were asked for that leave no room
/// for it.
pub(super) fn stale_releases(claims: &[Claim]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (place, claim) in claims.iter().enumerate() {
        let Some((Over::Release, invoked)) = claim.over else { continue };
        if claim.end < invoked && claim.released.is_some() {
            let later = claims[place + 1..].iter().take_while(|next| next.start < invoked);
            let next = later.filter(|it| it.excludes(claim) || is_full_beside(claim, it, claims));
            let pair = |next: &Claim| Violation::StaleRelease(claim.clone(), next.clone());
            violations.extend(next.map(pair));
        }
    }
    violations
}

/// True if the permits of one claim, of the next, and of all that were held when the next started, are more than the limit.
fn is_full_beside(one: &Claim, next: &Claim, claims: &[Claim]) -> bool {
    let held =
        |it: &&Claim| it.object == one.object && it.start <= next.start && next.start < it.end;
    let (count, limit) = permits(claims.iter().filter(held).chain([one]));
    next.object == one.object && next.start >= one.end && count > limit
}

/// Holds whose release failed before their deadline: the store did not have them any more, or did not answer.
pub(super) fn not_released(claims: &[Claim]) -> Vec<Violation> {
    let failed = claims.iter().filter_map(|claim| {
        let refusal = claim.refused?;
        let is_valid = claim.valid_until.is_none_or(|deadline| refusal.at < deadline);
        is_valid.then(|| Violation::NotReleased(claim.clone(), refusal))
    });
    failed.collect()
}

/// Each two updates of one lock's value that have read the same, and each reader that saw the value change. An update is recorded before the value is written. If its
/// process is killed then, or its task cancelled, it may have been none; but those who acquired the lock before a task was
/// cancelled may not have read what that task read.
///
/// The later of the two sets the value back, to one that was read before. Those who read the following values once more
/// found what it left, so they are no violations of their own: the time of that update decides what explains it. Those who read
/// more than the value has come to since then are.
pub(super) fn lost_updates(events: &[Event]) -> Vec<Violation> {
    let mut updates = Updates::default();
    let mut last: HashMap<(u32, u64), &Event> = HashMap::new();
    let mut violations = Vec::new();
    for event in events {
        match event.op {
            Op::Killed => {
                let killed = last.extract_if(|(process, _), _| *process == event.process);
                killed.for_each(|(_, unsure)| updates.forget(unsure));
            }
            Op::WriteCancelled => {
                if let Some(unsure) = last.remove(&(event.process, event.task)) {
                    updates.forget(unsure);
                    updates.cancelled.push((unsure, event.at));
                }
            }
            Op::Reread { before, after } if before != after => {
                if !updates.may_come_late(event, after) {
                    violations.push(Violation::Changed(event.clone()));
                }
            }
            _ => {
                last.insert((event.process, event.task), event);
                violations.extend(updates.add(event));
            }
        }
    }
    violations
}

/// What the updates up to now have read and written.
#[derive(Default)]
struct Updates<'e> {
    read: HashMap<(&'e str, u64), &'e Event>,
    /// The last update of each value that set it back, and the values that it and those behind it wrote.
    set_back: HashMap<&'e str, (&'e Event, RangeInclusive<u64>)>,
    /// When each task acquired last.
    acquired: HashMap<(u32, u64), Stamp>,
    /// Updates that may have been none, and when their tasks were cancelled.
    cancelled: Vec<(&'e Event, Stamp)>,
    /// These, and those of processes that were killed: the value may be written later than their holds end.
    unsure: Vec<&'e Event>,
}

impl<'e> Updates<'e> {
    fn add(&mut self, event: &'e Event) -> Option<Violation> {
        let holder = (event.process, event.task);
        if let Op::Acquired { .. } = event.op {
            self.acquired.insert(holder, event.at);
        }
        let Op::Updated { from, to } = event.op else { return None };
        let earlier = self.read.insert((&event.object, from), event);
        let acquired = self.acquired.get(&holder).copied();
        let beside = |(unsure, at): &&(&'e Event, Stamp)| {
            let reads_the_same =
                matches!(unsure.op, Op::Updated { from: read, .. } if read == from);
            unsure.object == event.object && reads_the_same && acquired.is_some_and(|it| it < *at)
        };
        let earlier = earlier.or_else(|| Some(self.cancelled.iter().find(beside)?.0));
        let behind =
            self.set_back.get_mut(&*event.object).filter(|(_, values)| values.contains(&from));
        if let Some((by, values)) = behind
            && earlier.is_none_or(|earlier| earlier.at < by.at)
        {
            *values = *values.start()..=to.max(*values.end());
            return None;
        }
        let earlier = earlier?;
        self.set_back.insert(&event.object, (event, to..=to));
        Some(Violation::LostUpdate(earlier.clone(), event.clone()))
    }

    /// True if an update that may have been none may have written this value now, which a reader saw.
    fn may_come_late(&self, reader: &Event, value: u64) -> bool {
        let wrote = |it: &&Event| matches!(it.op, Op::Updated { to, .. } if to == value);
        self.unsure.iter().copied().filter(wrote).any(|it| it.object == reader.object)
    }

    /// Forgets an update that may have been none.
    fn forget(&mut self, unsure: &'e Event) {
        let Op::Updated { from, to } = unsure.op else { return };
        self.unsure.push(unsure);
        if let Some((_, values)) = self.set_back.get_mut(&*unsure.object)
            && *values.end() == to
            && values.contains(&from)
        {
            *values = *values.start()..=from;
        }
        let value = (&*unsure.object, from);
        if self.read.get(&value) == Some(&unsure) {
            self.read.remove(&value);
        }
    }
}
