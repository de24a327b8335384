//! Where a configuration keeps locks. Addresses contain passwords: no message and no `Debug` output repeats any part of
//! one.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::policy::ConfigProblem;

/// The address of a server. It may contain a password, so `Debug` hides it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Address(String);

impl AsRef<str> for Address {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// `{ master = "…", nodes = […] }`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "{ master = \"…\", nodes = […] }")]
pub(crate) struct Sentinel {
    pub(crate) master: Address,
    pub(crate) nodes: Vec<Address>,
}

/// `{ ca = "ca.pem", certificate = "client.pem", key = "client.key" }`: paths of PEM files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "{ ca = \"ca.pem\" }")]
pub(crate) struct Tls {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
}

/// Where locks are kept.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// In this process: `url = "memory:"`.
    Memory,
    Server(Address),
    Cluster(Vec<Address>),
    Sentinel(Sentinel),
    Quorum(Vec<Address>),
}

impl Place {
    pub(crate) fn of_url(url: Address) -> Self {
        if url.as_ref() == "memory:" { Self::Memory } else { Self::Server(url) }
    }
}

/// What to write as an address.
const FORMS: &str = "write redis://user:password@host:port/database, rediss://… for TLS, unix:///path or memory:; \
                     in a user or password write %23 for `#`, %2F for `/`, %3F for `?` and %40 for `@`";

/// Returns the problems of the places that a configuration has.
pub(crate) fn problems(given: &[(&str, Place)]) -> Vec<ConfigProblem> {
    let mut found = Vec::new();
    let mut report = |path: &str, message: &str| found.push(ConfigProblem::new(path, message));
    if let [(one, _), (other, _), ..] = given {
        let message = format!("is given beside lock.{other}; locks live in one place, keep one");
        report(&format!("lock.{one}"), &message);
    }
    let (path, servers) = match given.first() {
        None | Some((_, Place::Memory)) => return found,
        Some((_, Place::Server(url))) => ("lock.url", std::slice::from_ref(url)),
        Some((_, Place::Cluster(nodes))) => ("lock.cluster", &nodes[..]),
        Some((_, Place::Quorum(nodes))) => ("lock.quorum", &nodes[..]),
        Some((_, Place::Sentinel(Sentinel { master: Address(master), nodes }))) => {
            let path = "lock.sentinel.master";
            let scheme = master.split_once("://").map(|(scheme, _)| scheme);
            if master.is_empty() {
                report(path, "is empty; name what the sentinels watch");
            } else if scheme
                .is_some_and(|it| !["redis", "rediss", "valkey", "valkeys"].contains(&it))
            {
                report(
                    path,
                    "is no master; write its name, or redis://user:password@name/database (rediss:// for TLS)",
                );
            }
            ("lock.sentinel.nodes", &nodes[..])
        }
    };
    if servers.is_empty() {
        report(path, "is empty; list at least one address");
    }
    for (at, server) in servers.iter().enumerate() {
        let path = if path == "lock.url" { path.to_owned() } else { format!("{path}[{at}]") };
        if servers[..at].contains(server) {
            report(&path, "is an address that the list has already; list each once");
        }
        if !is_address(&server.0) {
            report(&path, &format!("is no address that can be used; {FORMS}"));
        }
    }
    found
}

/// Returns whether the client library can use the address.
fn is_address(address: &str) -> bool {
    #[cfg(feature = "redis")]
    return crate::store::redis::is_address(address);
    #[cfg(not(feature = "redis"))]
    return address.contains("://");
}
