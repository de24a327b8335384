//! What fencing tokens say of the order in which holds were granted.
//!
//! So a waiter that asked before a loss of data, and whose token is greater than one of after it, has no excuse.

use std::collections::HashMap;

use super::{Claim, Stamp};

/// The tokens of each lock. The server mints them in the order of its grants, also after a loss of its data.
pub(super) struct Minted<'c> {
    by_object: HashMap<&'c str, Vec<Grant>>,
}

/// A hold, by its token.
#[derive(Clone, Copy)]
struct Grant {
    token: u64,
    /// When the last of the holds up to this one was asked for.
    asked: Stamp,
    /// When the first of the holds from this one on was known.
    known: Stamp,
}

impl<'c> Minted<'c> {
    pub(super) fn of(claims: &'c [Claim]) -> Self {
        let mut by_object: HashMap<&str, Vec<Grant>> = HashMap::new();
        for claim in claims {
            let Some(token) = claim.token else { continue };
            let grant = Grant { token, asked: claim.hold_asked, known: claim.start };
            by_object.entry(&claim.object).or_default().push(grant);
        }
        for grants in by_object.values_mut() {
            grants.sort_by_key(|grant| grant.token);
            for at in 1..grants.len() {
                grants[at].asked = grants[at].asked.max(grants[at - 1].asked);
            }
            for at in (1..grants.len()).rev() {
                grants[at - 1].known = grants[at - 1].known.min(grants[at].known);
            }
        }
        Self { by_object }
    }

    /// A span that has the end of the first grant and the beginning of the second, if the second has the greater token: a
    /// grant comes after its request and before its answer, and so do those of smaller and of greater tokens.
    pub(super) fn between(&self, first: &Claim, second: &Claim) -> Option<(Stamp, Stamp)> {
        let (first_token, second_token) = (first.token?, second.token?);
        let grants = self.by_object.get(&*first.object)?;
        let upto = grants.partition_point(|grant| grant.token <= first_token);
        let from = grants.partition_point(|grant| grant.token < second_token);
        let (before, after) = (grants[..upto].last()?, grants.get(from)?);
        (first_token < second_token).then_some((before.asked, after.known))
    }
}
