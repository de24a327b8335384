//! Pages of the names that are in use.

use std::any::Any;
use std::sync::Arc;

use crate::error::{StoreError, StoreErrorKind};
use crate::key::LockKey;
use crate::opaque::opaque_debug;

/// Where a listing of names goes on. Each store has cursors of its own, which mean nothing to another.
#[derive(Clone, Default)]
pub struct NamesCursor(Option<Arc<dyn Any + Send + Sync>>);

impl NamesCursor {
    /// Returns the cursor of the first page.
    #[must_use]
    pub fn start() -> Self {
        Self(None)
    }

    /// Returns a cursor for a [`Store`](super::Store) implementation, which goes on at this place.
    pub fn at(place: impl Any + Send + Sync) -> Self {
        Self(Some(Arc::new(place)))
    }

    /// Returns the place that an implementation has put into the cursor, `None` at the start.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Config`] if the cursor belongs to a store of another type.
    pub fn place<T: Any>(&self) -> Result<Option<&T>, StoreError> {
        let message = "the cursor belongs to another store; begin with `NamesCursor::start`";
        let foreign = || StoreError::new(StoreErrorKind::Config, message);
        let place = self.0.as_deref().map(|place| place.downcast_ref().ok_or_else(foreign));
        place.transpose()
    }
}

opaque_debug!(NamesCursor);

/// A page of the names that are in use.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct NamesPage {
    /// The names, in no order. A page may be empty although more follow.
    pub names: Vec<LockKey>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<NamesCursor>,
    /// How many keys the server has checked for it, one by one.
    pub(crate) checked: usize,
}

impl NamesPage {
    /// Creates a page.
    #[must_use]
    pub fn new(names: Vec<LockKey>, next: Option<NamesCursor>) -> Self {
        Self { names, next, checked: 0 }
    }

    /// With the number of keys that the server has checked for it.
    pub(crate) fn with_checked(self, checked: usize) -> Self {
        Self { checked, ..self }
    }
}
