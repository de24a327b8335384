//! The fair mutex on Redis (S-26), within one process; see `fair_processes` for several.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod cancel;
mod faults;
mod limits;
mod order;
mod redisson;
mod world;
