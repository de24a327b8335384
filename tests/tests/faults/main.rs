//! The fault table: a file for each fault, whose head says what is injected, what is promised, and what was seen.
//!
//! `docs/faults.md` is made of these heads (`cargo xtask faults`), and `tidy` sees to it that it is current. Most faults
//! are injected into a [`drill`]; what is particular to a fault is then checked beside it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod drill;
mod each;
mod prelude;

mod f01_holder_stopped;
mod f02_holder_killed;
mod f03_runtime_starved;
mod f04_wall_clock_of_a_client;
mod f05_suspend;
mod f06_acquire_dropped_in_flight;
mod f07_waiter_dropped;
mod f08_guard_dropped_by_a_panic;
mod f09_release_dropped_in_flight;
mod f10_runtime_ended;
mod f11_fork;
mod f12_task_moves;
mod f13_renewal_after_release;
mod f14_endless_holder;
mod f15_black_hole;
mod f16_acquire_reply_lost;
mod f17_release_reply_lost;
mod f18_slow_network;
mod f19_connections_reset;
mod f20_half_open_connection;
mod f21_subscriber_killed;
mod f22_random_loss;
mod f23_duplicated_requests;
mod f24_head_of_line;
mod f25_one_connection_for_all;
mod f26_address_changed;
mod f27_slow_server;
mod f28_server_frozen;
mod f29_server_clock_ahead;
mod f30_server_clock_behind;
mod f31_scripts_flushed;
mod f32_busy_server;
mod f33_out_of_memory;
mod f34_eviction_of_any_key;
mod f35_eviction_of_keys_with_an_end;
mod f36_server_loads;
