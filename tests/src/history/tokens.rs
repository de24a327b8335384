//! The rule that fencing tokens grow (C3).

use std::collections::BTreeMap;

use super::{Claim, Share, Stamp, Violation};

/// Each two holds of one lock of which the second has no greater token, though the first had begun before it was asked for;
/// or, if they exclude each other, had ended before it began. Readers have no order among themselves: they may join a hold
/// of their process.
pub(super) fn order(claims: &[Claim]) -> Vec<Violation> {
    let mut by_object: BTreeMap<&str, Vec<(u64, &Claim)>> = BTreeMap::new();
    let mut violations = Vec::new();
    for claim in claims {
        match claim.token {
            Some(token) => by_object.entry(&claim.object).or_default().push((token, claim)),
            None => violations.push(Violation::NoToken(claim.clone())),
        }
    }
    for holds in by_object.into_values() {
        // A grant that came too late to be a claim says nothing about when the hold was.
        let timely: Vec<_> = holds.iter().copied().filter(|(_, claim)| !claim.is_empty()).collect();
        let mut found =
            out_of_order(&timely, |claim| claim.end, |claim| claim.start, Claim::excludes);
        let reads = |claim: &Claim| claim.share == Share::Readers;
        let ordered = |one: &Claim, other: &Claim| !reads(one) || !reads(other);
        found.extend(out_of_order(&holds, |claim| claim.start, |claim| claim.invoked, ordered));
        found.extend(of_equal_token(holds));
        // Of several for one hold, the one with the smallest token. It is the hardest to excuse: what forgot the later hold
        // came before the grants of the others, too.
        found.sort_by_key(|(one, later)| (later.start, later.process, later.task, one.token));
        found.dedup_by_key(|(_, later)| *later);
        let pairs = found.into_iter();
        violations.extend(pairs.map(|(a, b)| Violation::TokenOrder(a.clone(), b.clone())));
    }
    violations
}

/// For each hold whose token is smaller than that of an `ordered` one that was `done` by the time it `began`: the one of
/// those that has the smallest token, and the hold.
fn out_of_order<'a>(
    holds: &[(u64, &'a Claim)],
    done: impl Fn(&Claim) -> Stamp,
    began: impl Fn(&Claim) -> Stamp,
    ordered: impl Fn(&Claim, &Claim) -> bool,
) -> Vec<(&'a Claim, &'a Claim)> {
    let mut by_done = holds.to_vec();
    by_done.sort_by_key(|(_, claim)| done(claim));
    let mut by_began = holds.to_vec();
    by_began.sort_by_key(|(_, claim)| began(claim));
    let mut earlier = 0;
    // One of each way to share: all claims of one way are ordered with the same ones.
    let mut greatest: Vec<(u64, &Claim)> = Vec::new();
    let mut found = Vec::new();
    for (token, claim) in by_began {
        while let Some(hold) = by_done.get(earlier).filter(|(_, it)| done(it) <= began(claim)) {
            earlier += 1;
            let way = |it: &Claim| std::mem::discriminant(&it.share);
            match greatest.iter_mut().find(|(_, it)| way(it) == way(hold.1)) {
                Some(most) if most.0 < hold.0 => *most = *hold,
                Some(_) => {}
                None => greatest.push(*hold),
            }
        }
        let is_before = |(other, it): &&(u64, &Claim)| token < *other && ordered(it, claim);
        if greatest.iter().any(|it| is_before(&it)) {
            let before = by_done[..earlier].iter().filter(is_before);
            found.extend(before.min_by_key(|(its, _)| *its).map(|(_, it)| (*it, claim)));
        }
    }
    found
}

/// Each hold that has the token of an earlier one, and that one. Readers may: they join the hold of another reader, or of the
/// writer before them.
fn of_equal_token(mut holds: Vec<(u64, &Claim)>) -> Vec<(&Claim, &Claim)> {
    holds.sort_by_key(|(token, claim)| (*token, claim.start, claim.share == Share::Readers));
    let pairs = holds.windows(2).filter(|pair| pair[0].0 == pair[1].0);
    pairs.map(|pair| (pair[0].1, pair[1].1)).filter(|(_, it)| it.share != Share::Readers).collect()
}
