//! [`Watched`]: what an observer of a hold observes, which is the time for which one guard has it.
//!
//! A hold outlives its guards: it passes to waiters of this process, readers share it, and a re-entry ends before the hold
//! around it. An observer must not take the time of another guard for that of its own.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::manager::LeaseManager;
use super::reentries::Level;
use super::{Hold, RELEASED};
use crate::clock::Tick;
use crate::error::{LockError, LossCause};
use crate::fence::FencingToken;

/// What a guard has of its hold.
#[derive(Clone)]
pub(crate) enum Share {
    /// All of it, until the hold is released or handed to the next waiter.
    Whole,
    /// A re-entry of that level, or without a level a share of a read hold. It may be over before the hold is: true once it
    /// was released in time.
    Nested(Arc<AtomicBool>, Option<Weak<Level>>),
}

impl Share {
    /// The level of its re-entry. It lives until the guard, and what is inside of it, has left the hold.
    pub(crate) fn level(&self) -> Option<&Weak<Level>> {
        match self {
            Self::Whole => None,
            Self::Nested(_, level) => level.as_ref(),
        }
    }

    /// True until the guard has left the hold. For [`Share::Whole`] the hold itself says so.
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Self::Whole => true,
            // The partner is the store in `Held::leave`.
            Self::Nested(is_over, _) => !is_over.load(Ordering::Acquire),
        }
    }
}

/// A hold for as long as one guard has it.
#[derive(Clone)]
pub(crate) struct Watched {
    pub(crate) hold: Arc<Hold>,
    pub(crate) token: FencingToken,
    /// Gone once no guard keeps it, nor the client.
    #[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "for commands of Redis"))]
    pub(crate) leases: Weak<LeaseManager>,
    share: Share,
}

impl Watched {
    /// The time of a guard that has the hold now.
    pub(crate) fn new(
        hold: &Arc<Hold>,
        token: FencingToken,
        leases: &Arc<LeaseManager>,
        share: Share,
    ) -> Self {
        Self { hold: Arc::clone(hold), token, leases: Arc::downgrade(leases), share }
    }

    /// As [`Hold::check`], and an error once the guard is released.
    pub(crate) fn check(&self) -> Result<Tick, LossCause> {
        let checked = self.hold.check();
        // In this order: what `check` has found happened in the guard's time if that is not over now.
        if self.is_over() { Err(LossCause::Released) } else { checked }
    }

    /// As [`check`](Self::check), with the error of a lost hold.
    pub(crate) fn ensure_held(&self) -> Result<(), LockError> {
        self.check().map(drop).map_err(|cause| self.hold.lost_error(cause))
    }

    /// Returns the time left until the deadline; zero once it is over or lost.
    pub(crate) fn remaining(&self) -> Duration {
        self.check().map_or(Duration::ZERO, |_| self.hold.remaining())
    }

    fn is_over(&self) -> bool {
        let hold = &*self.hold;
        match &self.share {
            // The partners are `mark_released`, and `departs` with `arrives`. In this order: a hold that arrives at its next
            // holder has that holder's token before it has a guard.
            Share::Whole => {
                hold.state.load(Ordering::Acquire) == RELEASED
                    || !hold.has_guards()
                    || hold.token() != self.token
            }
            share => !share.is_open(),
        }
    }

    /// Notified when it may be over or lost; the deadline also needs a timer.
    pub(crate) fn told(&self) -> Arc<Notify> {
        self.hold.end_of_guards()
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("token", &self.token).finish_non_exhaustive()
    }
}

impl Hold {
    /// Notified when the hold is lost and when a guard ends: one notification for both, since a hold is small. A task that
    /// waits for the loss alone checks once more, and waits on; a `run` also polls its body once more.
    fn end_of_guards(&self) -> Arc<Notify> {
        self.told.lock().are_guards_watched = true;
        self.lost()
    }

    /// Wakes the tasks that watch the ends of guards, after one has ended.
    #[inline]
    pub(crate) fn tell_watches(&self) {
        self.tell(true);
    }
}
