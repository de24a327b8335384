//! [`Held`]: the hold of a guard, and the guard's re-entry if it is nested.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::lease::watched::Share;
use crate::owned_hold::OwnedHold;

/// What a guard keeps alive. Dropping it undoes the re-entry first.
// S-6. One reference to the hold, since counting two would be a tenth of a re-entry's time.
pub(crate) struct Held {
    /// `None` once it was given away.
    owned: Option<Arc<OwnedHold>>,
    nested: Option<Nested>,
}

const IS_THERE: &str = "only the end of a guard gives its hold away";

/// A re-entry.
struct Nested {
    /// Its number in the hold; zero if it excludes no other.
    reentry: u64,
    /// True once a re-entry without a number is over, for those who observe it.
    is_over: OnceLock<Arc<AtomicBool>>,
}

impl Nested {
    fn new(reentry: u64) -> Self {
        Self { reentry, is_over: OnceLock::new() }
    }
}

impl Held {
    /// The hold of an outermost guard.
    pub(super) fn outermost(owned: Arc<OwnedHold>) -> Self {
        Self { owned: Some(owned), nested: None }
    }

    /// The hold of the first of several guards that share it concurrently.
    pub(super) fn first_of_many(owned: Arc<OwnedHold>) -> Self {
        let nested = Some(Nested::new(0));
        Self { owned: Some(owned), nested }
    }

    /// A hold that the caller has re-entered as that number.
    #[inline]
    pub(crate) fn nested(owned: Arc<OwnedHold>, reentry: u64) -> Self {
        let nested = Some(Nested::new(reentry));
        // First, so that the re-entry leaves in any case.
        let held = Self { owned: Some(owned), nested };
        held.hold.enter(reentry);
        held
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
            Some(Nested { reentry: 0, is_over, .. }) => {
                Share::Read(Arc::clone(is_over.get_or_init(Arc::default)))
            }
            Some(nested) => Share::Reentry(nested.reentry),
        }
    }

    /// The hold, if no other guard keeps it.
    pub(super) fn get_mut(&mut self) -> Option<&mut OwnedHold> {
        self.owned.as_mut().and_then(Arc::get_mut)
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
        let (Some(owned), Some(Nested { reentry, is_over })) = (&self.owned, self.nested.take())
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
        // The next waiter may be inside from now on.
        owned.hold.leave(reentry);
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
        self.leave();
    }
}
