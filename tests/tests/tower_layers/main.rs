//! The tower layers, generic and HTTP, over the in-memory store: what a client is told, what the
//! inner service sees, and when the lock is free again.

mod answers;
mod contract;
mod keys;
mod release;
mod router;
mod world;
