//! The rules on who may hold a lock at the same time (C1, C5, C6).

use std::collections::HashMap;

use super::{Claim, Share, Violation};

/// For each claim that starts during others that exclude it: the one of them that ends last, and it.
pub(super) fn overlaps(claims: &[Claim]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for_each_start(claims, |claim, others| {
        let excluding = others.iter().filter(|other| other.excludes(claim));
        if let Some(other) = excluding.max_by_key(|other| other.end) {
            violations.push(Violation::Overlap((*other).clone(), claim.clone()));
        }
    });
    violations
}

/// Each claim with which there are more permits in use than the limit. While the limit is changed, the greater one counts.
pub(super) fn too_many_permits(claims: &[Claim]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for_each_start(claims, |claim, others| {
        let all = others.iter().copied().chain([claim]).filter_map(|it| match it.share {
            Share::Permits { count, limit } => Some((u64::from(count), limit)),
            _ => None,
        });
        let (counts, limits): (Vec<u64>, Vec<u32>) = all.unzip();
        let sum = counts.iter().sum();
        if limits.into_iter().max().is_some_and(|limit| sum > u64::from(limit)) {
            violations.push(Violation::TooManyPermits(claim.clone(), sum));
        }
    });
    violations
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
