//! The fault table: a file for each fault, whose head says what is injected, what is promised, and what was seen.
//!
//! `docs/faults.md` is made of these heads (`cargo xtask faults`), and `tidy` sees to it that it is current. Most faults
//! are injected into a [`drill`]; what is particular to a fault is then checked beside it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod drill;
mod prelude;

mod f01_holder_stopped;
mod f15_black_hole;
