//! [`Held`]: the hold of a guard, and the guard's re-entry if it is nested.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::LockGuard;
use super::parts::Parts;
use crate::error::{LockError, StoreError, StoreErrorKind};
use crate::fence::FencingToken;
use crate::lease::reentries::Level;
use crate::lease::watched::Share;
use crate::owned_hold::OwnedHold;
use crate::store::{Ownership, RenewRequest};

/// What a guard keeps alive. Dropping it undoes the re-entry first.
// S-6. One reference to the hold, since counting two would be a tenth of a re-entry's time.
pub(crate) struct Held {
    /// `None` once it was given away.
    owned: Option<Arc<OwnedHold>>,
    nested: Option<Nested>,
    /// For several locks that were acquired in turn, of which this is the first: the others.
    pub(super) parts: Option<Box<Parts>>,
}

const IS_THERE: &str = "only the end of a guard gives its hold away";

/// A re-entry, or one of several guards that share a hold.
struct Nested {
    /// `None` if it excludes no other.
    level: Option<Arc<Level>>,
    /// True once it is over, for its observers.
    is_over: OnceLock<Arc<AtomicBool>>,
}

impl Nested {
    fn new(level: Option<Arc<Level>>) -> Self {
        Self { level, is_over: OnceLock::new() }
    }
}

impl Held {
    /// The hold of an outermost guard.
    pub(super) fn outermost(owned: Arc<OwnedHold>) -> Self {
        Self { owned: Some(owned), nested: None, parts: None }
    }

    /// The hold of the first of several guards that share it concurrently.
    pub(super) fn first_of_many(owned: Arc<OwnedHold>) -> Self {
        let nested = Some(Nested::new(None));
        Self { owned: Some(owned), nested, parts: None }
    }

    /// A hold that the caller has re-entered at that level.
    #[inline]
    pub(crate) fn nested(owned: Arc<OwnedHold>, level: Option<Arc<Level>>) -> Self {
        if level.is_none() {
            owned.hold.count_in();
        }
        Self { owned: Some(owned), nested: Some(Nested::new(level)), parts: None }
    }

    /// True if something else keeps the hold: it may end before this does.
    #[inline]
    pub(super) fn is_shared(&self) -> bool {
        self.owned.as_ref().is_some_and(|owned| Arc::strong_count(owned) > 1)
    }

    /// What the guard has of the hold.
    pub(super) fn share(&self) -> Share {
        match &self.nested {
            None => Share::Whole,
            Some(Nested { level, is_over }) => {
                let is_over = Arc::clone(is_over.get_or_init(Arc::default));
                Share::Nested(is_over, level.as_ref().map(Arc::downgrade))
            }
        }
    }

    /// The hold, if no other guard keeps it.
    pub(super) fn get_mut(&mut self) -> Option<&mut OwnedHold> {
        self.owned.as_mut().and_then(Arc::get_mut)
    }

    /// As [`LockGuard::extend`](super::LockGuard::extend), once it is known to be called in order.
    // S-9.
    pub(super) async fn extend(&self, lease: Duration) -> Result<(), LockError> {
        let OwnedHold { hold, leases, .. } = &***self;
        let sent_at = hold.ensure_held()?;
        if crate::lease::deadline(sent_at, lease) <= hold.deadline() {
            return Ok(());
        }
        hold.asks_for(sent_at, lease);
        let request = RenewRequest::new(Arc::clone(&hold.target), hold.owner.clone(), lease);
        match leases.store.renew(vec![request], leases.timing.command_timeout).await?.first() {
            Some(Ownership::Owner) => {
                hold.confirm(sent_at, lease);
                hold.ensure_held().map(drop)
            }
            Some(Ownership::NotOwner) => Err(hold.lost_error(leases.watchdog.not_owner(hold))),
            Some(Ownership::Unknown) | None => {
                let message = "too few servers said whether the lease was extended";
                Err(StoreError::new(StoreErrorKind::OutcomeUnknown, message).into())
            }
        }
    }

    /// Gives the hold a higher token, unless other guards share it. Those that hand it on count from this one.
    // S-23.
    pub(crate) fn raise_token(&mut self, token: FencingToken) {
        if self.nested.is_none() && token > self.token {
            self.change(|owned| {
                owned.token = token;
                owned.hold.set_token(token);
            });
        }
    }

    /// Has the store keep the hold for so long from now on, however soon it ends, unless it is one around the caller.
    pub(crate) fn keep_for(&mut self, at_least: Duration) {
        if self.nested.is_none() {
            let until = self.leases.clock.now().after(at_least);
            self.change(|owned| owned.keep_until = Some(until));
        }
    }

    /// Changes what it owns, unless other guards share it. Out of its `Arc`, to which ended scopes may refer.
    fn change(&mut self, change: impl FnOnce(&mut OwnedHold)) {
        let Some(owned) = self.owned.take() else { return };
        let changed = Arc::try_unwrap(owned).map(|mut owned| {
            change(&mut owned);
            Arc::new(owned)
        });
        self.owned = Some(changed.unwrap_or_else(|shared| shared));
    }

    /// Ends the guard of several locks, and returns those of all but the first. After the loss of one, `at_least` keeps none.
    pub(super) fn end_parts(&mut self) -> Vec<LockGuard> {
        let Some(mut parts) = self.parts.take() else { return Vec::new() };
        if parts.hold.check().is_err() {
            self.change(|owned| owned.keep_until = None);
            for guard in &mut parts.others {
                guard.owned.change(|owned| owned.keep_until = None);
            }
        }
        std::mem::take(&mut parts.others)
    }

    /// Ends it. False if nothing else keeps the hold: then it is as that of an outermost guard.
    #[inline]
    pub(super) fn end_shared(&mut self) -> bool {
        self.leave();
        // Others may end at the same time; one of them is the last.
        match self.owned.take().and_then(Arc::into_inner) {
            None => true,
            Some(last) => {
                self.owned = Some(Arc::new(last));
                false
            }
        }
    }

    /// Gives the hold away.
    pub(super) fn into_owned(mut self) -> Arc<OwnedHold> {
        self.leave();
        self.owned.take().expect(IS_THERE)
    }

    #[inline]
    fn leave(&mut self) {
        let (Some(owned), Some(Nested { level, is_over })) = (&self.owned, self.nested.take())
        else {
            return;
        };
        // A share of a lost hold stays lost.
        if let Some(is_over) = is_over.get()
            && owned.hold.check().is_ok()
        {
            is_over.store(true, Ordering::SeqCst);
            owned.hold.tell_watches();
        }
        // Before `owned` is given up: a caller that has the hold alone then finds no guard inside that has ended.
        match level {
            // The next waiter is inside from now on, unless guards inside of this one keep the level.
            Some(level) => drop(level),
            None => owned.hold.count_out(),
        }
    }
}

impl Deref for Held {
    type Target = Arc<OwnedHold>;

    fn deref(&self) -> &Arc<OwnedHold> {
        self.owned.as_ref().expect(IS_THERE)
    }
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        if self.parts.is_some() {
            drop(self.end_parts());
        }
        self.leave();
    }
}
