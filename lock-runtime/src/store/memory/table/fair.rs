//! Fair mutexes: a queue whose members give signs of life.
// S-26.

use super::{Change, Mode, Name, Reply, SOON, Side, another_kind, held, keep_place, leave_place};
use crate::clock::Tick;
use crate::store::target::waiter_channel;
use crate::store::{AcquireReply, AcquireRequest, OwnerId, Target};

/// How many waiters of the queue are tried to find one that is subscribed.
const MAX_NOTIFIED: usize = 32;

impl Name {
    pub(super) fn acquire_fair(&mut self, ask: &AcquireRequest, change: &mut Change) -> Reply {
        let (target, owner, now) = (&ask.target, &ask.owner, change.now);
        let (mut ours, mut ends) = (false, None);
        if let Some(hash) = self.hash()? {
            if hash.mode != Mode::Fair {
                return Err(another_kind());
            }
            ours = hash.has(owner.as_field(), Side::Only);
            ends = Some(hash.until);
        }
        // A newcomer to a held lock leaves the dead to the release, as in Redis.
        let is_new = self.queue.iter().all(|place| &*place.owner != owner.as_field());
        let leaves_them = ends.is_some() && !ours && (is_new || ask.place.is_none());
        let swept = !leaves_them && self.sweep_queue(Some(owner), now);
        let head = self.queue.front();
        let our_turn = head.is_none_or(|head| &*head.owner == owner.as_field());
        if swept && ends.is_none() && !our_turn {
            self.notify_head(target, change);
        }
        if ours || (ends.is_none() && our_turn) {
            let token = self.mint(ask, now);
            self.hold(Mode::Fair, Side::Only, owner, now.after(ask.lease));
            leave_place(&mut self.queue, owner);
            return Ok(AcquireReply::Granted(token));
        }
        if let Some(keep) = ask.place {
            keep_place(&mut self.queue, owner, now.after(keep));
        }
        match (ends, self.queue.front()) {
            (Some(ends), _) => Ok(held(ends, now)),
            (None, head) => {
                let left = head.map(|head| head.until.since(now).max(SOON));
                Ok(AcquireReply::Behind(left))
            }
        }
    }

    /// Frees the lock, or gives up the owner's place, and notifies the next waiter.
    pub(super) fn release_fair(
        &mut self,
        lock: &Target,
        owner: &OwnerId,
        change: &mut Change,
    ) -> bool {
        let held = self.has_field(owner);
        if held {
            self.value = None;
        }
        leave_place(&mut self.queue, owner);
        if self.value.is_none() {
            self.sweep_queue(None, change.now);
            self.notify_first(lock, change);
        }
        held
    }

    /// A first waiter that is not subscribed may be dead. Then the first subscribed one asks, and learns how
    /// long to wait for the first.
    pub(super) fn notify_first(&self, lock: &Target, change: &mut Change) {
        let channel = |place: &super::Place| waiter_channel(lock.companions(), &place.owner);
        change.notify.push(self.queue.iter().take(MAX_NOTIFIED).map(channel).collect());
    }

    /// Removes dead waiters from the front; `asking` is not dead, however late. True if any was removed.
    pub(super) fn sweep_queue(&mut self, asking: Option<&OwnerId>, now: Tick) -> bool {
        let before = self.queue.len();
        while let Some(head) = self.queue.front()
            && head.until <= now
            && asking.is_none_or(|owner| &*head.owner != owner.as_field())
        {
            self.queue.pop_front();
        }
        self.queue.len() < before
    }

    pub(super) fn notify_head(&self, lock: &Target, change: &mut Change) {
        if let Some(head) = self.queue.front() {
            change.notify(&waiter_channel(lock.companions(), &head.owner));
        }
    }
}
