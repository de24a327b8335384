//! What tests of several subjects share.

pub(crate) mod authority;
pub(crate) mod examples;
pub(crate) mod fair_line;
pub(crate) mod handed_on;
pub(crate) mod kinds;
pub(crate) mod quorum;
pub(crate) mod troubled;
pub(crate) mod workers;
pub(crate) mod writers;
