//! Locks on several servers: Sentinel, Cluster, replicas; and on a guarded one: TLS, permissions.

mod cluster;
mod one_address;
mod permissions;
mod redis_commands;
mod replicas;
pub(crate) mod sentinel;
mod tls;
