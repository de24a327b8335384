//! The rules on waiting: in the order of the queue (C7), and not longer than the lock is held (C8).

use std::collections::{BTreeMap, HashMap};
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

/// Each claim that waited for longer than `most` while no other claim of the same lock was there.
pub(super) fn left_free(claims: &[Claim], most: Duration) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut free_since: HashMap<&str, Stamp> = HashMap::new();
    for claim in claims {
        let free = free_since.entry(&claim.object).or_insert(claim.waited_since);
        // A release takes effect between its request and its confirmation.
        let span = claim.start.since((*free).max(claim.waited_since));
        if span > most {
            violations.push(Violation::LeftFree(claim.clone(), span));
        }
        *free = (*free).max(claim.released.unwrap_or(claim.end));
    }
    violations
}
