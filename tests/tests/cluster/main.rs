//! Locks in a Redis Cluster: where they are, what goes wrong, and what slots and masters do meanwhile.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod connecting;
mod failover;
mod faults;
mod frozen;
mod kinds;
mod moving;
mod permissions;
mod removed;
#[path = "../rivals/mod.rs"]
mod rivals;
#[path = "../takers/mod.rs"]
mod takers;
#[path = "../kinds/mod.rs"]
mod taking;
mod turns;
mod world;
#[path = "../writers/mod.rs"]
mod writers;
