//! Locks on the master that real sentinels name, through fail-overs (S-15, S-31, S-33).

mod failover;
mod frozen;
mod planned;
mod stale;
mod start;
mod tls;
pub(crate) mod world;
