//! Locks on the master that real sentinels name, through fail-overs (S-15, S-31, S-33).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

#[path = "../authority/mod.rs"]
mod authority;
mod failover;
mod frozen;
mod stale;
mod start;
#[path = "../takers/mod.rs"]
mod takers;
#[path = "../kinds/mod.rs"]
mod taking;
mod tls;
mod world;
