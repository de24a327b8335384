//! Requests as calls of scripts, and what the answers mean; how requests share a script, and wait for replicas.

pub(crate) mod answers;
pub(crate) mod calls;
pub(crate) mod combine;
mod holds;
pub(crate) mod info;
pub(crate) mod renew;
pub(crate) mod replicated;

pub(crate) use self::holds::HoldRequest;
