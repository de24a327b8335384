//! Tells the caller that drops the future of an acquire that its request was never sent.
//!
//! What was sent has to be undone, what was not sent leaves nothing behind. A future that is dropped returns nothing, so
//! the store leaves a word for the code that drops it: the owner of the request, on the thread of the drop. Without such
//! a word the request may have been sent; a store that does not know says nothing.
// S-21.

use std::cell::Cell;

use super::OwnerId;

thread_local! {
    /// The owner of the last acquire that was dropped unsent on this thread.
    static UNSENT: Cell<Option<Box<OwnerId>>> = const { Cell::new(None) };
}

/// Leaves the word for the caller, whose future of this owner's acquire is being dropped. Only a drop leaves one: that of
/// a request which has failed would count for the owner's next request.
#[cfg(feature = "redis")]
pub(crate) fn dropped_unsent(owner: &OwnerId) {
    // A thread that ends has no such place any more: then the request may have been sent.
    let _ = UNSENT.try_with(|unsent| unsent.set(Some(Box::new(owner.clone()))));
}

/// True if the acquire of this owner, whose future was just dropped on this thread, was not sent.
pub(crate) fn was_dropped_unsent(owner: &OwnerId) -> bool {
    let unsent = UNSENT.try_with(Cell::take).ok().flatten();
    unsent.is_some_and(|unsent| unsent.as_field() == owner.as_field())
}

/// Takes the word back when it is dropped. For a future whose earlier requests were sent: create this before the request
/// under way, which is then dropped first.
#[cfg(feature = "redis")]
pub(crate) struct SentBefore;

#[cfg(feature = "redis")]
impl Drop for SentBefore {
    fn drop(&mut self) {
        let _ = UNSENT.try_with(Cell::take);
    }
}
