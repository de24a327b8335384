//! The fault table: a file for each fault, whose head says what is injected, what is promised, and what was seen.
//!
//! `docs/faults.md` is made of these heads (`cargo xtask faults`), and `tidy` sees to it that it is current. Most faults
//! are injected into a [`drill`]; what is particular to a fault is then checked beside it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod drill;
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
mod f46_password_changed;
mod f47_rights_taken;
mod f48_expiry_unnoticed;
mod f49_unreplicated;
mod f50_stale_master;
mod f51_no_replica;
mod f52_read_only;
mod f53_master_down;
mod f54_too_few_replicas;
mod f55_cannot_save;
mod f56_crossslot;
mod f57_slots_move;
mod f58_cluster_down;
mod f59_reads_from_replicas;
mod f60_shard_subscribers_cut;
mod f61_quorum_minority_dead;
mod f62_quorum_server_hangs;
mod f63_quorum_server_forgets;
mod f64_quorum_split_vote;
mod f65_quorum_majority_hangs;
mod f66_thousand_waiters;
mod f67_dead_waiters;
mod f68_reader_flood;
mod f69_reader_killed;
mod f70_permits;
mod f71_crossed_order;
mod f72_two_releases;
mod f73_one_name_two_kinds;
mod f74_request_flood;
