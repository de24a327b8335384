//! Locks in a Redis Cluster: where they are, what goes wrong, and what slots and masters do meanwhile.

mod connecting;
mod failover;
mod faults;
mod kinds;
mod moving;
mod permissions;
mod removed;
mod replaced;
mod turns;
mod world;
