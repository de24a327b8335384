//! The part of a hold that a re-entry uses, and which uses exclude each other.

use std::sync::Arc;

use crate::store::{HoldKind, Target};

/// The part of the enclosing hold that a re-entry uses.
#[derive(Clone)]
pub(crate) enum Claim {
    /// The hold's only lock, as a reader.
    Read,
    /// The hold's only lock.
    Whole,
    /// Some locks of a multi lock. The number is the id of the lease manager for those locks that name none.
    Part(Arc<Target>, u64),
}

impl Claim {
    /// The part of a hold of `held` that `wanted` uses, a lock of the lease manager with the id `mine`.
    pub(crate) fn of(wanted: &Arc<Target>, mine: u64, held: &Target) -> Self {
        if !held.members().is_empty() {
            Self::Part(Arc::clone(wanted), mine)
        } else if reads(wanted) {
            Self::Read
        } else {
            Self::Whole
        }
    }

    pub(super) fn reads(&self) -> bool {
        match self {
            Self::Read => true,
            Self::Whole => false,
            Self::Part(target, _) => reads(target),
        }
    }

    /// True if the two exclude each other.
    pub(super) fn conflicts(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Read, Self::Read) => false,
            (Self::Part(one, mine), Self::Part(two, theirs)) => {
                one.locks_at_home(*mine).any(|(home, lock)| {
                    two.locks_at_home(*theirs).any(|(of, other)| {
                        let share = lock.kind() == HoldKind::Read && other.kind() == HoldKind::Read;
                        of == home && other.key() == lock.key() && !share
                    })
                })
            }
            _ => true,
        }
    }
}

fn reads(target: &Target) -> bool {
    match target.members() {
        [] => target.kind() == HoldKind::Read,
        members => members.iter().all(|lock| lock.kind() == HoldKind::Read),
    }
}
