//! What operators' tools need from a store: messages between clients, and the names that are in use.

mod messages;
mod names;
mod names_on_redis;
mod outages;
mod world;
