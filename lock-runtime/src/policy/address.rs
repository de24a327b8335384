//! Where locks are kept. Addresses may contain passwords: no message and no `Debug` output repeats one.

use std::fmt;

use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};

use super::table::{table, text_in_place_of};

/// The address of a server. It may contain a password, so `Debug` hides it.
///
/// # Examples
///
/// ```
/// use lock_runtime::policy::Address;
///
/// let address = Address::from("redis://:secret@redis.internal");
/// assert_eq!(format!("{address:?}"), "Address(…)");
/// assert_eq!(address.as_str(), "redis://:secret@redis.internal");
/// ```
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Address(String);

impl Address {
    /// Returns the address itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: Into<String>> From<T> for Address {
    fn from(address: T) -> Self {
        Self(address.into())
    }
}

impl AsRef<str> for Address {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Address(…)")
    }
}

/// `{ master = "…", nodes = […] }`: the server that Redis Sentinel reports, as for
/// `RedisStore::connect_sentinel`.
///
/// # Examples
///
/// ```
/// use lock_runtime::policy::Sentinel;
///
/// let sentinel: Sentinel = toml::from_str(
///     r#"
///     master = "redis://:secret@locks/2" # or "locks"; rediss://locks for TLS
///     nodes = ["redis://one:26379", "redis://two:26379", "redis://three:26379"]
///     "#,
/// )?;
/// assert_eq!(sentinel.master.as_str(), "redis://:secret@locks/2");
/// assert_eq!(sentinel.nodes[0].as_str(), "redis://one:26379");
/// # Ok::<_, toml::de::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
#[non_exhaustive]
pub struct Sentinel {
    /// The sentinels' name of the server; if it needs credentials, another database or TLS, an address with
    /// that name in place of a host and without a port.
    pub master: Address,
    /// The addresses of the sentinels, with *their* credentials; the default port is 26379.
    #[serde(deserialize_with = "required_list")]
    pub nodes: Vec<Address>,
}

table!(Sentinel, r#"{ master = "…", nodes = […] }"#);

/// Where locks are kept.
///
/// # Examples
///
/// ```
/// use lock_runtime::policy::{LockAddress, LockConfig};
///
/// let config = LockConfig::from_toml("[lock]\nurl = 'memory:'")?;
/// assert_eq!(config.address(), Some(&LockAddress::Memory));
/// # Ok::<_, lock_runtime::policy::ConfigError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockAddress {
    /// In this process: `url = "memory:"`.
    Memory,
    /// On one server.
    Server(Address),
    /// In a Redis Cluster.
    Cluster(Vec<Address>),
    /// On the server that sentinels report.
    Sentinel(Sentinel),
    /// On a majority of these servers.
    Quorum(Vec<Address>),
}

impl LockAddress {
    pub(super) fn of_url(url: Address) -> Self {
        if url.as_str() == "memory:" { Self::Memory } else { Self::Server(url) }
    }
}

const LIST: &str = "a list of addresses";

pub(super) fn list<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Address>>, D::Error> {
    required_list(from).map(Some)
}

fn required_list<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Address>, D::Error> {
    struct List;
    impl<'de> Visitor<'de> for List {
        type Value = Vec<Address>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(LIST)
        }

        fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> {
            Err(text_in_place_of(LIST))
        }

        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(list))
        }
    }
    from.deserialize_any(List)
}
