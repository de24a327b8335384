//! How long the store may keep a hold, and for how long it has not confirmed one.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Hold, deadline};
use crate::clock::Tick;

/// For how long no renewal has been confirmed, and of which lease.
pub(crate) struct Unconfirmed {
    pub(crate) since: Duration,
    pub(crate) lease: Duration,
}

impl Hold {
    /// Records that a request for `lease` is about to be sent. Before it is sent: the store may run it whether or not
    /// its answer comes, and a release has to be repeated for as long as the store may then keep the hold.
    pub(crate) fn asks_for(&self, sent_at: Tick, lease: Duration) {
        // The partner is the load below. Only a renewal can be sent while the last guard releases, since all else is asked by a
        // guard that keeps the hold. A release that misses it repeats for one lease more (`LeaseManager::release_later`).
        self.stored_until.fetch_max(sent_at.after(lease).as_nanos(), Ordering::AcqRel);
    }

    /// Returns the latest end that the store may have for it: never before the deadline, which needs an answer.
    pub(crate) fn stored_until(&self) -> Tick {
        Tick::from_nanos(self.stored_until.load(Ordering::Acquire))
    }

    /// True if the store may keep it for longer than a task that takes it over at `now` asks for: an extension is for
    /// the task that asked for it.
    // S-14.
    pub(crate) fn outlasts_its_lease(&self, now: Tick) -> bool {
        self.stored_until() > now.after(self.lease.duration())
    }

    /// Returns for how long no renewal has been confirmed, if the hold should be renewed.
    pub(crate) fn unconfirmed_for(&self) -> Option<Unconfirmed> {
        let now = self.clock.now();
        let lease = self.renewal(now)?;
        // The deadline is where the last confirmed request put it.
        let good_for = deadline(now, lease).since(now);
        let since = good_for.saturating_sub(self.deadline().since(now));
        Some(Unconfirmed { since, lease })
    }
}
