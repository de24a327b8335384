//! The values of labels and fields.

use crate::error::{LockError, LossCause};
use crate::store::HoldKind;

/// A fieldless enum, each value with its label.
macro_rules! names {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $value:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$each])* #[doc = concat!("\n\nThe word is `", $word, "`.")] $value,)+
        }

        impl $name {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$value,)+];

            /// Returns the value's text in labels and fields.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $word,)+
                }
            }
        }
    };
}

names! {
    /// Outcome of an acquire.
    AcquireOutcome {
        /// The store granted it. For a count-down latch: it opened.
        Acquired = "acquired",
        /// A task of this process handed its hold on; the store was not asked.
        // S-14.
        HandedOver = "handed_over",
        /// A reader joined the hold that readers of this process share.
        // S-27.
        Joined = "joined",
        /// The caller re-entered a hold that encloses it.
        // S-6.
        Reentered = "reentered",
        /// The wait ran out.
        Timeout = "timeout",
        /// Another holder had it and the call did not wait, or too many tasks were waiting.
        Busy = "busy",
        /// The acquire was dropped before it ended.
        Cancelled = "cancelled",
        /// The lock was busy, and its policy does not enforce it: the body ran anyway.
        NotEnforced = "not_enforced",
        /// Whether the lock was free is unknown, and its policy does not enforce it: the store did not answer
        /// at once, or had been too slow before and was not asked, or failed. The body ran anyway.
        Unanswered = "unanswered",
        /// The hold to re-enter is lost.
        Lost = "lost",
        /// It would have waited for itself.
        WouldDeadlock = "would_deadlock",
        /// The name is in use as something else.
        Collision = "collision",
        /// Too few replicas confirmed it.
        // S-31.
        NotReplicated = "not_replicated",
        /// The client was shut down.
        Closed = "closed",
        /// The store failed.
        Failed = "failed",
    }
}

impl AcquireOutcome {
    /// The outcome of an acquire that failed; in shadow mode, what the failure says about the lock.
    pub(crate) fn of(error: &LockError, is_enforced: bool) -> Self {
        let outcome = match error {
            error if error.is_timeout() => Self::Timeout,
            error if error.is_contended() => Self::Busy,
            LockError::Lost { .. } => Self::Lost,
            LockError::WouldDeadlock { .. } => Self::WouldDeadlock,
            LockError::KeyCollision { .. } => Self::Collision,
            LockError::NotReplicated { .. } => Self::NotReplicated,
            LockError::Closed => Self::Closed,
            _ => Self::Failed,
        };
        match outcome {
            outcome if is_enforced => outcome,
            // It is unknown whether the lock would have blocked the call.
            Self::Failed | Self::Closed => Self::Unanswered,
            _ => Self::NotEnforced,
        }
    }
}

names! {
    /// Outcome of one attempt to renew one hold.
    RenewOutcome {
        /// The store confirmed it.
        Renewed = "renewed",
        /// The store does not know the hold any more: it is lost.
        NotOwner = "not_owner",
        /// The store failed or did not answer. The hold is not lost by that.
        // S-9.
        Failed = "failed",
    }
}

names! {
    /// Outcome of the end of a hold.
    ReleaseOutcome {
        /// The store freed it, or keeps it until `at_least` has passed.
        Released = "released",
        /// It was lost before the release, or the store did not know it any more.
        Lost = "lost",
        /// The store did not confirm the release in time: while the caller waited or, for a dropped guard,
        /// until the lease was over.
        Failed = "failed",
    }
}

names! {
    /// Outcome of a body that ran under a guard.
    RunOutcome {
        /// It ended in time.
        Done = "done",
        /// The hold was lost before.
        Lost = "lost",
        /// It was dropped before its end: its caller dropped it, a layer cut it off, or it panicked.
        Cancelled = "cancelled",
    }
}

/// How many kinds [`kind_label`] distinguishes.
#[cfg(feature = "metrics")]
pub(super) const KINDS: usize = HoldKind::Latch as usize + 1;

/// Returns the label of a kind of lock.
#[must_use]
pub const fn kind_label(kind: HoldKind) -> &'static str {
    match kind {
        HoldKind::Mutex => "mutex",
        HoldKind::Fair => "fair",
        HoldKind::Read => "read",
        HoldKind::Write => "write",
        HoldKind::Semaphore => "semaphore",
        HoldKind::Multi => "multi",
        HoldKind::Latch => "latch",
    }
}

/// Returns the label of the cause of a loss.
#[must_use]
pub const fn cause_label(cause: LossCause) -> &'static str {
    match cause {
        LossCause::Deadline => "deadline",
        LossCause::NotOwner => "not_owner",
        // No metric has it: a release is no loss.
        LossCause::Released => "released",
    }
}
