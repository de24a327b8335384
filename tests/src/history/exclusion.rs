//! The rules on who may hold a lock at the same time (C1, C5, C6).

use std::collections::HashMap;

use super::{Claim, Event, Op, Over, Share, Violation};

/// Each two claims that overlap and exclude each other, the one that started first in front. A fault that explains one pair
/// need not explain another, so every pair is reported.
pub(super) fn overlaps(claims: &[Claim]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for_each_start(claims, |claim, others| {
        let excluding = others.iter().filter(|other| other.excludes(claim));
        let pair = |other: &&Claim| Violation::Overlap((*other).clone(), claim.clone());
        violations.extend(excluding.map(pair));
    });
    violations
}

/// For each claim with which there are more permits in use than the limit: all claims in use, it the last. While the limit
/// is changed, the greater one counts.
pub(super) fn too_many_permits(claims: &[Claim]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for_each_start(claims, |claim, others| {
        let all = || others.iter().copied().chain([claim]);
        let (count, limit) = permits(all());
        if count > limit {
            violations.push(Violation::TooManyPermits(all().cloned().collect(), count));
        }
    });
    violations
}

/// Each task that entered with its permits when more than the limit were in use, by a count that its holders keep on another
/// server. Those whose hold ended before they could count themselves out are still in it.
pub(super) fn crowds(events: &[Event], claims: &[Claim]) -> Vec<Violation> {
    let mut stayed: HashMap<&str, Vec<&Claim>> = HashMap::new();
    let mut limits: HashMap<&str, u64> = HashMap::new();
    for claim in claims {
        let limit = limits.entry(&claim.object).or_default();
        *limit = permits([claim]).1.max(*limit);
        if !matches!(claim.over, Some((Over::Release, _))) {
            stayed.entry(&claim.object).or_default().push(claim);
        }
    }
    let crowd = |event: &Event| {
        let Op::Entered { inside } = event.op else { return None };
        let limit = *limits.get(&*event.object)?;
        let ended = stayed.get(&*event.object).into_iter().flatten().copied();
        let (counted, _) = permits(ended.filter(|claim| claim.end <= event.at));
        (inside > limit + counted).then(|| Violation::Crowd(event.clone(), limit))
    };
    events.iter().filter_map(crowd).collect()
}

/// The permits of these claims, and their limit: the greatest that one of them knew.
pub(super) fn permits<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> (u64, u64) {
    let of = |claim: &Claim| match claim.share {
        Share::Permits { count, limit } => (u64::from(count), u64::from(limit)),
        _ => (0, 0),
    };
    let sum = |(sum, most): (u64, u64), (count, limit)| (sum + count, most.max(limit));
    claims.into_iter().map(of).fold((0, 0), sum)
}

/// Calls `look` with each claim, by their starts, and the earlier ones of the same lock that have not ended by then.
fn for_each_start<'a>(claims: &'a [Claim], mut look: impl FnMut(&'a Claim, &[&'a Claim])) {
    let mut active: HashMap<&str, Vec<&Claim>> = HashMap::new();
    for claim in claims.iter().filter(|claim| !claim.is_empty()) {
        let others = active.entry(&claim.object).or_default();
        others.retain(|other| other.end > claim.start);
        look(claim, others);
        others.push(claim);
    }
}
