//! Stores made of other stores: several locks as one, and one lock on several servers.
//!
//! Callers see one [`Store`](super::Store), so the acquire loop, the watchdog and the releaser use these as any
//! other.

pub(crate) mod joint;
pub(crate) mod quorum;
