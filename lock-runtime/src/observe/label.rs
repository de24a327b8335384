//! Whose a lock is, for those who look: its policy and its kind.

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "metrics")]
use super::meter::Keys;
use super::{NO_POLICY, ReleaseOutcome};
use crate::error::LossCause;
use crate::store::{LockKind, ReleaseReply};

/// The policy that a lock follows, if it does. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Label(Option<Arc<Named>>);

/// A policy's name, with the keys of its metrics.
pub(super) struct Named {
    pub(super) name: Arc<str>,
    #[cfg(feature = "metrics")]
    pub(super) keys: Keys,
}

impl Label {
    #[cfg(feature = "policy")]
    pub(crate) fn new(policy: &str) -> Self {
        Self(Some(Arc::new(Named {
            name: Arc::from(policy),
            #[cfg(feature = "metrics")]
            keys: Keys::default(),
        })))
    }

    pub(crate) fn as_str(&self) -> &str {
        self.0.as_ref().map_or(NO_POLICY, |named| &named.name)
    }

    #[cfg(feature = "metrics")]
    pub(super) fn named(&self) -> Option<&Named> {
        self.0.as_deref()
    }
}

impl PartialEq for Label {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Label {}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// What counts for one policy and kind.
#[derive(Debug, Clone)]
pub(crate) struct Meter {
    pub(super) label: Label,
    #[cfg_attr(not(feature = "metrics"), expect(dead_code, reason = "for metrics"))]
    pub(super) kind: LockKind,
}

impl Meter {
    pub(crate) fn new(label: Label, kind: LockKind) -> Self {
        Self { label, kind }
    }

    /// The store answered a release. `repeated` if an earlier one, unanswered, may have been the one
    /// that freed it.
    pub(crate) fn answered(&self, reply: ReleaseReply, repeated: bool) {
        if reply == ReleaseReply::NotOwner && !repeated {
            self.lost(LossCause::NotOwner);
            self.released(ReleaseOutcome::Lost);
        } else {
            self.released(ReleaseOutcome::Released);
        }
    }
}
