//! The tower layers, generic and HTTP, over the in-memory store: what a client is told, what the
//! inner service sees, and when the lock is free again.

mod answers;
mod clients;
mod connection;
mod contract;
mod defaults;
mod departures;
mod edges;
mod held_lock;
mod hold;
mod keys;
mod nested;
mod outages;
mod panics;
mod placement;
mod policies;
mod prompt;
mod read_ahead;
mod read_ahead_pool;
mod reload;
mod router;
mod routes;
mod shutdown;
mod streams;
mod terms;
mod tonic_server;
mod untouched;
mod upgrades;
pub(crate) mod world;
