//! Stores made of stores: several locks as one, and one lock on several servers.
//!
//! Whoever takes locks sees one [`Store`](super::Store), so the acquire loop, the watchdog and the
//! releaser serve these as they serve any other.

pub(crate) mod joint;
pub(crate) mod quorum;
