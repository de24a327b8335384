//! The label of a lock in logs and metrics: its policy, its call site, and its kind.

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "metrics")]
use super::meter::Keys;
use super::{NO_POLICY, ReleaseOutcome};
use crate::error::LossCause;
use crate::shadow::LogLimit;
use crate::site::{CallSite, LayerSite};
use crate::store::{HoldKind, ReleaseReply};

/// Logs an event of a lock, with the fields that every such line has: name, policy and site. For a policy that
/// is not enforced, at most one line per second at the levels that are usually on.
macro_rules! log_lock {
    (debug, $key:expr, $label:expr, $($rest:tt)+) => {
        tracing::debug!(
            lock.name = ?$key,
            lock.policy = ?$label,
            lock.site = %$label.site(),
            $($rest)+
        )
    };
    ($level:ident, $key:expr, $label:expr, $($rest:tt)+) => {
        if let Some(turn) = $label.log_turn() {
            tracing::$level!(
                lock.name = ?$key,
                lock.policy = ?$label,
                lock.site = %$label.site(),
                lock.unlogged = turn.unlogged,
                $($rest)+
            );
        }
    };
}
pub(crate) use log_lock;

/// The policy that a lock follows, if any, and the site of its call. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Label {
    policy: Option<Arc<Named>>,
    site: Option<CallSite>,
    /// True if the body runs in any case.
    is_shadow: bool,
}

/// The label of a layer's locks, made once for all its calls.
#[derive(Debug, Clone)]
pub struct LayerLabel(Label);

impl LayerLabel {
    /// For a layer without a policy: see `Policy::layer_label`.
    #[must_use]
    pub fn new(site: &'static LayerSite) -> Self {
        Self::of(Label::default(), site)
    }

    pub(crate) fn of(label: Label, site: &'static LayerSite) -> Self {
        Self(label.at(CallSite::Layer(site)))
    }

    pub(crate) fn label(&self) -> Label {
        self.0.clone()
    }
}

/// A policy's name, with the keys of its metrics.
pub(super) struct Named {
    pub(super) name: Arc<str>,
    shadow_log: LogLimit,
    #[cfg(feature = "metrics")]
    pub(super) keys: Keys,
}

/// Permission to write one line to the log.
pub(crate) struct LogTurn {
    /// How many unlogged lines this one also counts; `None` where all are written.
    pub(crate) unlogged: Option<u64>,
}

impl Label {
    #[cfg(feature = "policy")]
    pub(crate) fn new(policy: &str) -> Self {
        let policy = Some(Arc::new(Named {
            name: Arc::from(policy),
            shadow_log: LogLimit::default(),
            #[cfg(feature = "metrics")]
            keys: Keys::default(),
        }));
        Self { policy, ..Self::default() }
    }

    /// Returns the same label for a call at `site`, unless it already has a site.
    pub(crate) fn at(mut self, site: CallSite) -> Self {
        self.site.get_or_insert(site);
        self
    }

    /// Returns the same label for a body that always runs unless `enforced`.
    pub(crate) fn enforced(mut self, enforced: bool) -> Self {
        self.is_shadow = !enforced;
        self
    }

    /// Returns false if the body always runs.
    pub(crate) fn is_enforced(&self) -> bool {
        !self.is_shadow
    }

    pub(crate) fn as_str(&self) -> &str {
        self.policy.as_ref().map_or(NO_POLICY, |named| &named.name)
    }

    /// Returns the site of the call, if it is known.
    pub(crate) fn call_site(&self) -> Option<CallSite> {
        self.site
    }

    /// Returns the name of the policy, if there is one.
    pub(crate) fn policy(&self) -> Option<&str> {
        self.policy.as_ref().map(|named| &*named.name)
    }

    /// Returns the site of the call, for the log.
    pub(crate) fn site(&self) -> impl fmt::Display {
        struct Site(Option<CallSite>);
        impl fmt::Display for Site {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match &self.0 {
                    Some(site) => fmt::Display::fmt(site, f),
                    None => f.write_str("unknown"),
                }
            }
        }
        Site(self.site)
    }

    /// Returns whether to log an event of the lock now.
    pub(crate) fn log_turn(&self) -> Option<LogTurn> {
        match self.policy.as_ref().filter(|_| self.is_shadow) {
            None => Some(LogTurn { unlogged: None }),
            Some(policy) => {
                let unlogged = policy.shadow_log.next_line()?;
                Some(LogTurn { unlogged: Some(unlogged) })
            }
        }
    }

    /// Logs that a body runs although the lock of that name was not acquired.
    pub(crate) fn not_enforced(&self, name: &str, error: &(dyn std::error::Error + 'static)) {
        log_lock!(
            info,
            name,
            self,
            error,
            "runs without the lock, which its policy does not enforce"
        );
    }

    #[cfg(feature = "metrics")]
    pub(super) fn named(&self) -> Option<&Named> {
        self.policy.as_deref()
    }
}

/// Two labels are equal if they name the same policy.
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

/// Counts for one policy and kind.
#[derive(Debug, Clone)]
pub(crate) struct Meter {
    pub(crate) label: Label,
    #[cfg_attr(not(feature = "metrics"), expect(dead_code, reason = "for metrics"))]
    pub(super) kind: HoldKind,
}

impl Meter {
    pub(crate) fn new(label: Label, kind: HoldKind) -> Self {
        Self { label, kind }
    }

    /// Counts the store's answer to a release. `repeated` if an earlier one, unanswered, may have freed it.
    pub(crate) fn answered(&self, reply: ReleaseReply, repeated: bool) {
        if reply == ReleaseReply::NotOwner && !repeated {
            self.lost(LossCause::NotOwner);
            self.released(ReleaseOutcome::Lost);
        } else {
            self.released(ReleaseOutcome::Released);
        }
    }
}
