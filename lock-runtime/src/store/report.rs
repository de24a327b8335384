//! What servers report of themselves, for people who operate them.
#![expect(clippy::disallowed_types, reason = "times that people read; no decision uses them")]

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use crate::error::StoreError;

/// What is known of one server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerReport<T> {
    /// Its address, without credentials.
    pub address: String,
    /// What it says, or why it does not.
    pub answer: Result<T, StoreError>,
}

impl<T> ServerReport<T> {
    /// The answer of a server, or the error of asking it.
    pub(crate) fn new(address: impl Into<String>, answer: Result<T, StoreError>) -> Self {
        Self { address: address.into(), answer }
    }
}

/// What one server reports of itself.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerFacts {
    /// The fields of Redis' `INFO`, such as `redis_version` and `maxmemory_policy`.
    pub info: BTreeMap<String, String>,
    /// The time from a request to its answer.
    pub round_trip: Duration,
    /// The time on the server's clock.
    pub clock: SystemTime,
    /// The time on this machine's clock at the same moment, give or take half a round trip.
    pub own_clock: SystemTime,
}

/// A right to run a command, which the server does not give the user.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingRight {
    /// The right as `ACL SETUSER` grants it, such as `+rpush`.
    pub right: String,
    /// What does not work without it, such as `fair mutexes`.
    pub needed_for: &'static str,
    /// True if all locks work without it.
    pub is_optional: bool,
}
