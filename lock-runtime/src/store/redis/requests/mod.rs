//! Requests as calls of scripts, and the meaning of the answers; how requests share a script, and wait for
//! replicas.

pub(crate) mod answers;
pub(crate) mod calls;
pub(crate) mod combine;
pub(crate) mod command;
mod holds;
pub(crate) mod info;
pub(crate) mod names;
pub(crate) mod renew;
pub(crate) mod replicated;
pub(crate) mod rights;

pub(crate) use self::holds::HoldRequest;
