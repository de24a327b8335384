//! The fault table: a file for each fault, whose head says what is injected, what is promised, and what was seen.
//!
//! `docs/faults.md` is made of these heads (`cargo xtask faults`), and `tidy` sees to it that it is current. Most faults
//! are injected into a [`drill`]; what is particular to a fault is then checked beside it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

#[allow(dead_code, reason = "no fault needs all of it")]
mod drill;
#[allow(dead_code, reason = "no fault needs all of it")]
mod prelude;

mod f01_holder_stopped;
mod f15_black_hole;
mod f37_restart_empty;
mod f38_aof_tail_lost;
mod f39_rdb_rollback;
mod f40_paused_writes;
mod f41_too_many_clients;
mod f42_notices_overflow;
mod f43_flushed;
mod f44_other_type;
mod f45_no_expiry;
