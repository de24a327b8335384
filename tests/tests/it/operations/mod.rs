//! What operators' tools need from a store: messages between clients, and the names that are in use.

mod messages;
mod outages;
mod world;
