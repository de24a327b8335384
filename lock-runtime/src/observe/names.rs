//! The words that labels and fields take.

use crate::error::{LockError, LossCause};
use crate::store::HoldKind;

/// A fieldless enum, each value with its word.
macro_rules! names {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $value:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$each])* #[doc = concat!("\n\nThe word is `", $word, "`.")] $value,)+
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$value,)+];

            /// The word that labels and fields have.
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
    /// What an acquire came to.
    AcquireOutcome {
        /// The store granted it. Of a count-down latch: it opened.
        Acquired = "acquired",
        /// A task of this process passed its hold on; the store was not asked.
        // S-14.
        HandedOver = "handed_over",
        /// A reader joined the hold that readers of this process share.
        // S-27.
        Joined = "joined",
        /// A hold around the caller was entered again.
        // S-6.
        Reentered = "reentered",
        /// The wait ran out.
        Timeout = "timeout",
        /// Somebody else had it, and it was not to wait; or too many waited already.
        Busy = "busy",
        /// The acquire was dropped before it was through.
        Cancelled = "cancelled",
        /// It could not be had, and its policy does not enforce it: the body ran all the same.
        NotEnforced = "not_enforced",
        /// Whether it could be had is not known, and its policy does not enforce it: the store did not
        /// answer at once, or had not before and was not asked, or failed. The body ran all the same.
        Unanswered = "unanswered",
        /// The hold that was to be entered again is lost.
        Lost = "lost",
        /// It would have waited for itself.
        WouldDeadlock = "would_deadlock",
        /// The name is in use as something else.
        Collision = "collision",
        /// Too few replicas knew of it.
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
            error if error.is_busy() => Self::Busy,
            LockError::Lost { .. } => Self::Lost,
            LockError::WouldDeadlock { .. } => Self::WouldDeadlock,
            LockError::KeyCollision { .. } => Self::Collision,
            LockError::NotReplicated { .. } => Self::NotReplicated,
            LockError::Closed => Self::Closed,
            _ => Self::Failed,
        };
        match outcome {
            outcome if is_enforced => outcome,
            // Whether the lock would have blocked the call is not known.
            Self::Failed | Self::Closed => Self::Unanswered,
            _ => Self::NotEnforced,
        }
    }
}

names! {
    /// What one attempt to renew one hold came to.
    RenewOutcome {
        /// The store confirmed it.
        Renewed = "renewed",
        /// The store does not know the hold any more: it is lost.
        NotOwner = "not_owner",
        /// The store failed, or did not say. The hold is not lost by that.
        // S-9.
        Failed = "failed",
    }
}

names! {
    /// What the end of a hold came to.
    ReleaseOutcome {
        /// The store freed it, or keeps it until `at_least` has passed.
        Released = "released",
        /// It was lost before it was let go, or the store did not know it any more.
        Lost = "lost",
        /// The store did not confirm it in time: while the caller waited, or, of a dropped guard, until
        /// the lease was over.
        Failed = "failed",
    }
}

names! {
    /// How a body ended that ran under a guard.
    RunOutcome {
        /// It came to its end in time.
        Done = "done",
        /// The hold was lost before.
        Lost = "lost",
        /// It was dropped before: its caller gave up, a layer cut it off, or it panicked.
        Cancelled = "cancelled",
    }
}

/// How many kinds [`kind_label`] tells apart.
#[cfg(feature = "metrics")]
pub(super) const KINDS: usize = HoldKind::Latch as usize + 1;

/// The word for a kind of lock.
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

/// The word for how a hold was lost.
#[must_use]
pub const fn cause_label(cause: LossCause) -> &'static str {
    match cause {
        LossCause::Deadline => "deadline",
        LossCause::NotOwner => "not_owner",
    }
}
