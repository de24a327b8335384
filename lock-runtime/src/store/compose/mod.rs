//! A store made of other stores: one lock on several servers.
//!
//! Callers see one [`Store`](super::Store), so the acquire loop, the watchdog and the releaser use it as any other.

pub(crate) mod quorum;
