//! The rules on who may hold a lock at the same time (C1, C5, C6).

use std::collections::HashMap;

use super::{Claim, Share, Violation};

/// Each claim that starts during another one that excludes it, and that one. Every such pair: what explains one explains no other.
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
